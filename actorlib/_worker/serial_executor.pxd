from actorlib._wire.blocking_channel cimport BlockingChannel as Pipe
from actorlib._worker.method_timing cimport MethodTiming as Timing

cdef class SerialExecutor:
    cdef object __weakref__
    cdef public object _client, _instance, _links, _generators, _inbox
    cdef public Pipe _pipe
    cdef public Timing _timing
    cpdef _serve_call(self, tuple frame)
    cpdef flush(self)
