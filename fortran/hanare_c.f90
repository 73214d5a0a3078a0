! Calls of hanare.h as C has them. The module `hanare` gives them types and texts of Fortran; programs use that one.
module hanare_c
    use, intrinsic :: iso_c_binding
    implicit none
    public

    ! hanare_strided of hanare.h.
    type, bind(c) :: hanare_strided
        integer(c_int64_t) :: offset = 0 ! first byte of the first block
        integer(c_int64_t) :: block = 0  ! bytes of a block
        integer(c_int64_t) :: count = 0  ! blocks
        integer(c_int64_t) :: stride = 0 ! bytes from one block to the next
    end type

    ! hanare_create_options of hanare.h.
    type, bind(c) :: create_options
        integer(c_size_t) :: struct_size
        type(c_ptr) :: placement
        integer(c_int32_t) :: mode
        integer(c_int32_t) :: refuse_lost
        type(c_ptr) :: attributes
        integer(c_size_t) :: attribute_count
        integer(c_int32_t) :: copies
    end type

    interface
        function c_last_error() bind(c, name="hanare_last_error")
            import :: c_ptr
            type(c_ptr) :: c_last_error
        end function
        function c_strerror(code) bind(c, name="hanare_strerror")
            import :: c_ptr, c_int
            integer(c_int), value :: code
            type(c_ptr) :: c_strerror
        end function
        function c_code_name(code) bind(c, name="hanare_code_name")
            import :: c_ptr, c_int
            integer(c_int), value :: code
            type(c_ptr) :: c_code_name
        end function
        function c_strlen(text) bind(c, name="strlen")
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
            integer(c_size_t) :: c_strlen
        end function

        integer(c_int) function c_use_as(face) bind(c, name="hanare_use_as")
            import :: c_int
            integer(c_int), value :: face
        end function
        integer(c_int) function c_attach(pool) bind(c, name="hanare_attach")
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: pool
        end function
        integer(c_int) function c_detach(pool) bind(c, name="hanare_detach")
            import :: c_ptr, c_int
            type(c_ptr), value :: pool
        end function
        integer(c_int) function c_rank(pool) bind(c, name="hanare_rank")
            import :: c_ptr, c_int
            type(c_ptr), value :: pool
        end function
        integer(c_int) function c_ranks(pool) bind(c, name="hanare_ranks")
            import :: c_ptr, c_int
            type(c_ptr), value :: pool
        end function
        integer(c_int) function c_node(pool) bind(c, name="hanare_node")
            import :: c_ptr, c_int
            type(c_ptr), value :: pool
        end function
        integer(c_int) function c_barrier(pool) bind(c, name="hanare_barrier")
            import :: c_ptr, c_int
            type(c_ptr), value :: pool
        end function
        integer(c_int) function c_flush(pool) bind(c, name="hanare_flush")
            import :: c_ptr, c_int
            type(c_ptr), value :: pool
        end function
        integer(c_int) function c_abort(pool, status) bind(c, name="hanare_abort")
            import :: c_ptr, c_int
            type(c_ptr), value :: pool
            integer(c_int), value :: status
        end function

        integer(c_int) function c_create(pool, name, len, options, region) bind(c, name="hanare_create")
            import :: c_ptr, c_int, c_int64_t, c_char, create_options
            type(c_ptr), value :: pool
            character(kind=c_char), dimension(*), intent(in) :: name
            integer(c_int64_t), value :: len
            type(create_options), intent(in) :: options
            type(c_ptr), intent(inout) :: region
        end function
        integer(c_int) function c_create_or_attach(pool, name, len, options, region) bind(c, name="hanare_create_or_attach")
            import :: c_ptr, c_int, c_int64_t, c_char, create_options
            type(c_ptr), value :: pool
            character(kind=c_char), dimension(*), intent(in) :: name
            integer(c_int64_t), value :: len
            type(create_options), intent(in) :: options
            type(c_ptr), intent(inout) :: region
        end function
        integer(c_int) function c_open(pool, name, rights, region) bind(c, name="hanare_open")
            import :: c_ptr, c_int, c_char
            type(c_ptr), value :: pool
            character(kind=c_char), dimension(*), intent(in) :: name
            integer(c_int), value :: rights
            type(c_ptr), intent(inout) :: region
        end function
        integer(c_int) function c_close(region) bind(c, name="hanare_close")
            import :: c_ptr, c_int
            type(c_ptr), value :: region
        end function
        integer(c_int) function c_remove(pool, name) bind(c, name="hanare_remove")
            import :: c_ptr, c_int, c_char
            type(c_ptr), value :: pool
            character(kind=c_char), dimension(*), intent(in) :: name
        end function
        integer(c_int64_t) function c_len(region) bind(c, name="hanare_len")
            import :: c_ptr, c_int64_t
            type(c_ptr), value :: region
        end function
        integer(c_int) function c_is_local(region) bind(c, name="hanare_is_local")
            import :: c_ptr, c_int
            type(c_ptr), value :: region
        end function
        integer(c_int) function c_was_created(region) bind(c, name="hanare_was_created")
            import :: c_ptr, c_int
            type(c_ptr), value :: region
        end function

        integer(c_int) function c_put(region, offset, from, len) bind(c, name="hanare_put")
            import :: c_ptr, c_int, c_int64_t, c_size_t
            type(c_ptr), value :: region
            integer(c_int64_t), value :: offset
            type(*), dimension(*), intent(in) :: from
            integer(c_size_t), value :: len
        end function
        integer(c_int) function c_get(region, offset, into, len) bind(c, name="hanare_get")
            import :: c_ptr, c_int, c_int64_t, c_size_t
            type(c_ptr), value :: region
            integer(c_int64_t), value :: offset
            type(*), dimension(*), intent(inout) :: into
            integer(c_size_t), value :: len
        end function
        integer(c_int) function c_put_strided(region, shape, from, len) bind(c, name="hanare_put_strided")
            import :: c_ptr, c_int, c_size_t, hanare_strided
            type(c_ptr), value :: region
            type(hanare_strided), intent(in) :: shape
            type(*), dimension(*), intent(in) :: from
            integer(c_size_t), value :: len
        end function
        integer(c_int) function c_get_strided(region, shape, into, len) bind(c, name="hanare_get_strided")
            import :: c_ptr, c_int, c_size_t, hanare_strided
            type(c_ptr), value :: region
            type(hanare_strided), intent(in) :: shape
            type(*), dimension(*), intent(inout) :: into
            integer(c_size_t), value :: len
        end function

        integer(c_int) function c_map(region, ptr, len) bind(c, name="hanare_map")
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: region
            type(c_ptr), intent(inout) :: ptr
            integer(c_size_t), intent(inout) :: len
        end function
        integer(c_int) function c_map_shared(region, consistency, ptr, len) bind(c, name="hanare_map_shared")
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: region
            integer(c_int), value :: consistency
            type(c_ptr), intent(inout) :: ptr
            integer(c_size_t), intent(inout) :: len
        end function
        integer(c_int) function c_flush_range(region, offset, len) bind(c, name="hanare_flush_range")
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: region
            integer(c_int64_t), value :: offset, len
        end function
        integer(c_int) function c_update_range(region, offset, len) bind(c, name="hanare_update_range")
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: region
            integer(c_int64_t), value :: offset, len
        end function
        integer(c_int) function c_unmap(region) bind(c, name="hanare_unmap")
            import :: c_ptr, c_int
            type(c_ptr), value :: region
        end function

        integer(c_int) function c_group_open(pool, name, parties, group) bind(c, name="hanare_group_open")
            import :: c_ptr, c_int, c_int32_t
            type(c_ptr), value :: pool
            type(c_ptr), value :: name
            integer(c_int32_t), value :: parties
            type(c_ptr), intent(inout) :: group
        end function
        integer(c_int) function c_group_meet(group) bind(c, name="hanare_group_meet")
            import :: c_ptr, c_int
            type(c_ptr), value :: group
        end function
        integer(c_int) function c_group_close(group) bind(c, name="hanare_group_close")
            import :: c_ptr, c_int
            type(c_ptr), value :: group
        end function
        integer(c_int) function c_group_number(group) bind(c, name="hanare_group_number")
            import :: c_ptr, c_int
            type(c_ptr), value :: group
        end function
        integer(c_int) function c_group_parties(group) bind(c, name="hanare_group_parties")
            import :: c_ptr, c_int
            type(c_ptr), value :: group
        end function
        integer(c_int) function c_broadcast(group, values, len, root) bind(c, name="hanare_broadcast")
            import :: c_ptr, c_int, c_int32_t, c_size_t
            type(c_ptr), value :: group
            type(*), dimension(*), intent(inout) :: values
            integer(c_size_t), value :: len
            integer(c_int32_t), value :: root
        end function
        integer(c_int) function c_all_reduce(group, values, count, element, op) bind(c, name="hanare_all_reduce")
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: group
            type(*), dimension(*), intent(inout) :: values
            integer(c_size_t), value :: count
            integer(c_int), value :: element, op
        end function
    end interface
end module hanare_c
