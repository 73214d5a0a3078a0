! Calls of the module on one rank: what they give, what they refuse, and the texts of refusals.
program calls
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: real64, int32, int64, error_unit
    use hanare
    implicit none

    type(hanare_pool) :: pool
    type(hanare_region) :: region, other
    integer(c_int) :: code
    integer :: failures = 0

    call expect(hanare_last_error() == "", "no call has failed yet")
    call hanare_attach(pool)
    call expect(hanare_rank(pool) == 0, "rank")
    call expect(hanare_ranks(pool) == 1, "ranks")
    call expect(hanare_node(pool) == 0, "node")
    call naming
    call arrays_of_any_kind
    call sections
    call maps
    call groups
    call hanare_close(region)
    call hanare_remove(pool, "calls")
    call closed_handles
    call hanare_detach(pool)
    if (failures > 0) stop 1
    print '(a)', "all calls do as they say"

    ! The last call of this program fails, and nobody asks for its code.
    call hanare_barrier(pool)
    print '(a)', "the program went on"

contains

    subroutine expect(holds, what)
        logical, intent(in) :: holds
        character(len=*), intent(in) :: what
        if (holds) return
        failures = failures + 1
        write (error_unit, '(4a)') "not so: ", what, "; ", hanare_last_error()
    end subroutine

    ! The last call failed with that code, and its text has the words.
    subroutine refused(wanted, words)
        integer(c_int), intent(in) :: wanted
        character(len=*), intent(in) :: words
        character(len=:), allocatable :: text
        text = hanare_last_error()
        call expect(code == wanted, words)
        call expect(index(text, words) > 0, words)
    end subroutine

    ! Numbers of any form are the same, bit by bit.
    pure logical function same(left, right)
        real(real64), intent(in) :: left(:), right(:)
        same = all(transfer(left, [0_int64]) == transfer(right, [0_int64]))
    end function

    subroutine naming
        call hanare_open(pool, "nowhere", HANARE_MOST, region, code)
        call refused(HANARE_ERR_UNKNOWN_REGION, "nowhere")
        call expect(hanare_strerror(HANARE_ERR_UNKNOWN_REGION) /= "", "meaning of a code")
        call expect(hanare_code_name(HANARE_ERR_TIMEOUT) == "HANARE_ERR_TIMEOUT", "name of a code")
        call hanare_create(pool, "calls", 0_int64, region, code=code)
        call refused(HANARE_ERR_BAD_LENGTH, "hanare_create")
        call hanare_create(pool, "calls", 8_int64, region, placement="node=77", code=code)
        call refused(HANARE_ERR_BAD_PLACEMENT, "77")
        call hanare_create(pool, "calls   ", 65536_int64, region, placement="node=0", mode=int(o'640'))
        call expect(hanare_was_created(region) == HANARE_CREATED, "created")
        call expect(hanare_len(region) == 65536, "length")
        call expect(hanare_is_local(region) == 1, "local")
        call hanare_create(pool, "calls", 65536_int64, other, code=code)
        call refused(HANARE_ERR_NAME_TAKEN, "calls")
        call hanare_create_or_attach(pool, "calls", 65536_int64, other)
        call expect(hanare_was_created(other) == HANARE_FOUND, "found")
        call hanare_close(other)
        call hanare_create(pool, "copied", 4096_int64, other, copies=3, code=code)
        call refused(HANARE_ERR_BAD_PLACEMENT, "copies")
    end subroutine

    subroutine arrays_of_any_kind
        integer(int32) :: whole(2, 3), whole_back(6)
        complex(real64) :: field(2, 2, 2), field_back(2, 2, 2)
        character(len=5) :: words(2), words_back(2)
        integer :: at
        whole = reshape([(at, at = 1, 6)], [2, 3])
        field = (1.5_real64, -2.5_real64)
        words = ["first", "other"]
        call hanare_put(region, 64_int64, whole, c_sizeof(whole))
        call hanare_put(region, 128_int64, field, c_sizeof(field))
        call hanare_put(region, 512_int64, words, 10_c_size_t)
        call hanare_get(region, 64_int64, whole_back, c_sizeof(whole_back))
        call hanare_get(region, 128_int64, field_back, c_sizeof(field_back))
        call hanare_get(region, 512_int64, words_back, 10_c_size_t)
        call expect(all(whole_back == [1, 2, 3, 4, 5, 6]), "integers")
        call expect(same(transfer(field_back, [0.0_real64]), transfer(field, [0.0_real64])), "complex numbers")
        call expect(all(words_back == words), "texts")
        call hanare_put(region, 65535_int64, whole, c_sizeof(whole), code)
        call refused(HANARE_ERR_OUT_OF_RANGE, "65536")
        call hanare_open(pool, "calls", HANARE_READ, other)
        call hanare_put(other, 0_int64, whole, c_sizeof(whole), code)
        call refused(HANARE_ERR_BAD_USE, "hanare_put")
        call hanare_close(other)
    end subroutine

    ! Rows and other sections, which lie apart in memory, on both sides of a put and a get.
    subroutine sections
        real(real64) :: table(4, 5), back(4, 5), row(5)
        integer :: at
        table = reshape([(real(at, real64), at = 1, 20)], [4, 5])
        back = 0
        call hanare_put(region, 1024_int64, table, c_sizeof(table))
        call hanare_get_strided(region, hanare_strided(1024 + 16, 8, 5, 32), row, c_sizeof(row))
        call expect(same(row, table(3, :)), "the third row")
        call hanare_put(region, 2048_int64, table(2, :), 40_c_size_t)
        call hanare_get(region, 2048_int64, back(4, :), 40_c_size_t)
        call expect(same(back(4, :), table(2, :)), "a row of another table")
        call expect(.not. any(abs(back(:3, :)) > 0), "nothing beside the row")
        call hanare_put_strided(region, hanare_strided(1024, 8, 5, 32), -table(1, :), 40_c_size_t)
        call hanare_get(region, 1024_int64, back, c_sizeof(back))
        table(1, :) = -table(1, :)
        call expect(same(reshape(back, [20]), reshape(table, [20])), "the first row alone is another")
        call hanare_put_strided(region, hanare_strided(0, 16, 2, 8), row, 32_c_size_t, code)
        call refused(HANARE_ERR_BAD_SHAPE, "hanare_put_strided")
    end subroutine

    subroutine maps
        type(c_ptr) :: ptr
        integer(c_size_t) :: len
        real(real64), pointer :: field(:, :)
        real(real64) :: number(1)
        call hanare_map(region, ptr, len)
        call expect(len == 65536, "length of a map")
        call c_f_pointer(ptr, field, [64, 128])
        field(2, 3) = 4.25_real64
        call hanare_get(region, 8_int64 * (1 + 2 * 64), number, 8_c_size_t)
        call expect(same(number, [4.25_real64]), "a store is seen")
        call hanare_unmap(region)
        call hanare_unmap(region, code)
        call refused(HANARE_ERR_BAD_USE, "hanare_unmap")
        call hanare_map_shared(region, HANARE_EXPLICIT, ptr, len)
        call c_f_pointer(ptr, field, [64, 128])
        field(1, 1) = 7
        call hanare_flush_range(region, 0_int64, 8_int64)
        call hanare_update_range(region, 0_int64, 8_int64)
        call expect(same(field(1:1, 1), [7.0_real64]), "a store stays")
        call hanare_unmap(region)
        call hanare_flush(pool)
    end subroutine

    subroutine groups
        type(hanare_group) :: group
        integer(int64) :: numbers(3)
        numbers = [3_int64, 4_int64, 5_int64]
        call hanare_group_open(pool, group, name="calls", parties=1)
        call expect(hanare_group_number(group) == 0, "number in a group")
        call expect(hanare_group_parties(group) == 1, "parties of a group")
        call hanare_group_meet(group)
        call hanare_barrier(pool)
        call hanare_broadcast(group, numbers, c_sizeof(numbers), 0)
        call hanare_all_reduce(group, numbers, 3_c_size_t, HANARE_I64, HANARE_ADD)
        call expect(all(numbers == [3, 4, 5]), "the sum of one party")
        call hanare_broadcast(group, numbers, 8_c_size_t, 9, code)
        call refused(HANARE_ERR_BAD_GROUP, "hanare_broadcast")
        call hanare_group_close(group)
        call hanare_group_meet(group, code)
        call refused(HANARE_ERR_BAD_ARGUMENT, "hanare_group_meet")
    end subroutine

    ! A handle that was given back is refused, and not used.
    subroutine closed_handles
        integer(int32) :: number(1)
        call hanare_get(region, 0_int64, number, 4_c_size_t, code)
        call refused(HANARE_ERR_BAD_ARGUMENT, "hanare_get")
        call hanare_open(pool, "calls", HANARE_MOST, region, code)
        call refused(HANARE_ERR_UNKNOWN_REGION, "calls")
    end subroutine
end program calls
