cpdef tuple own_result(object engine, object call, object value, object method)
cpdef tuple invoke(object engine, object instance, tuple frame)
