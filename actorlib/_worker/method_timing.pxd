cdef double _QUICK, _FORGIVEN

cdef class MethodTiming:
    cdef public dict _longest
    cpdef bint is_quick(self, object method) except -1
    cpdef bint ran(self, object method, double took) except -1
