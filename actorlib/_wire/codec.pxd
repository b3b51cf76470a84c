cdef class FrameDecoder:
    cdef object __weakref__
    cdef public object memory, _unpacker, _incomplete, _long_loans
    cdef public Py_ssize_t read_size
    cdef public list _sizes, _buffers
    cpdef list feed(self, object data)
    cpdef list _unpack(self, object data)
    cpdef _drain(self, list frames)

cdef frozenset _NUMBERS
cdef object _LEAST, _GREATEST

cpdef bint are_scalars(tuple values) except -1
cpdef encode(tuple frame)
