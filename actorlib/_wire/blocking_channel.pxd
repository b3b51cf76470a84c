from actorlib._wire.codec cimport FrameDecoder as Decoder

cdef class BlockingChannel:
    cdef object __weakref__
    cdef public object sock, sharing, memory, _read, _write_lock
    cdef public Decoder decoder
    cdef public list _gathered
    cdef public Py_ssize_t _gathered_size
    cdef public double read_timeout
    cpdef list receive_some(self)
    cpdef gather(self, tuple frame)
    cpdef flush(self)
    cpdef _write(self)
