cdef class CallTable:
    cdef object __weakref__
    cdef public dict deferred, posted
    cdef public double next_mark
    cdef public object _next, _next_deferred, _marks
    cpdef begin(self, object target, object what, object headers=*)
