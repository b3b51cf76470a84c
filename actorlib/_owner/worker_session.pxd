cdef class WorkerSession:
    cdef object __weakref__
    cdef public object actor, number, prefix, constructor_error, constructor_summary
    cdef public object constructor_traceback, protocol_error, when_answered, cleanup
    cdef public object sharing, channel, _loop, _process, _settle, _settle_scalar
    cdef public object _item, _refcount, _serve, _ready, _patience, _woken
    cdef public bint _has_ended
    cpdef _receive(self, list frames)
