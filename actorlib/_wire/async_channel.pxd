from actorlib._wire.codec cimport FrameDecoder as Decoder

cdef class AsyncChannel:
    cdef object __weakref__
    cdef public object _loop, _sock, _fd, _receive, _on_lost, _sharing, _pause_above
    cdef public object _backlog, _drained
    cdef public Decoder _decoder
    cdef public list _gathered
    cdef public Py_ssize_t _gathered_size, _backlog_size, refused
    cdef public bint _is_gathering, is_turn_timed, _is_open, _is_paused
    cpdef write(self, object data)
    cpdef write_last(self, object data)
    cpdef _write_gathered(self)
    cpdef _write(self, object data, Py_ssize_t count=*)
