! Hanare for Fortran 2018: the calls of hanare.h that a stencil needs, under the names that C has.
!
!     type(hanare_pool) :: pool
!     type(hanare_region) :: region
!     real(real64) :: row(100)
!     call hanare_attach(pool)
!     call hanare_create_or_attach(pool, "row", c_sizeof(row), region)
!     call hanare_put(region, 0_int64, row, c_sizeof(row))
!
! Rules of every call
! -------------------
! Errors     `code`, the last argument of each subroutine, gets 0 (or a number of at least 0), or a negative HANARE_ERR_...: hanare.h says
!            which. Without it a failure writes its text to the error output, and ends the program with status 1. `hanare run` then ends
!            the other ranks. hanare_last_error() is the text of this thread's last failed call.
! Names      blanks at the end of a name do not count.
! Numbers    offsets and lengths are bytes, counted from 0. c_sizeof(array) is the length of an array.
! Arrays     of any type and rank. A section that is not contiguous is copied by the compiler before or after the call.
module hanare
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit
    use hanare_codes
    use hanare_c
    implicit none
    private

    ! Handles. Each is the program's from the call that opens it to the call that gives it back.
    type, public :: hanare_pool
        private
        type(c_ptr) :: handle = c_null_ptr
    end type
    type, public :: hanare_region
        private
        type(c_ptr) :: handle = c_null_ptr
    end type
    type, public :: hanare_group
        private
        type(c_ptr) :: handle = c_null_ptr
    end type
    public :: hanare_strided

    public :: hanare_last_error, hanare_strerror, hanare_code_name
    public :: hanare_attach, hanare_detach, hanare_rank, hanare_ranks, hanare_node
    public :: hanare_barrier, hanare_flush, hanare_abort
    public :: hanare_create, hanare_create_or_attach, hanare_open, hanare_close, hanare_remove
    public :: hanare_len, hanare_is_local, hanare_was_created
    public :: hanare_put, hanare_get, hanare_put_strided, hanare_get_strided
    public :: hanare_map, hanare_map_shared, hanare_flush_range, hanare_update_range, hanare_unmap
    public :: hanare_group_open, hanare_group_meet, hanare_group_close, hanare_group_number, hanare_group_parties
    public :: hanare_broadcast, hanare_all_reduce
    public :: HANARE_OK, HANARE_ERR_UNKNOWN_REGION, HANARE_ERR_NAME_TAKEN, HANARE_ERR_BAD_NAME, HANARE_ERR_BAD_LENGTH
    public :: HANARE_ERR_BAD_PLACEMENT, HANARE_ERR_OUT_OF_RANGE, HANARE_ERR_BAD_SHAPE, HANARE_ERR_NO_PERMISSION
    public :: HANARE_ERR_QUOTA_EXCEEDED, HANARE_ERR_POOL_FULL, HANARE_ERR_LIMIT_REACHED, HANARE_ERR_NODE_LOST
    public :: HANARE_ERR_REGION_LOST, HANARE_ERR_GRANT_REFUSED, HANARE_ERR_NO_NODE, HANARE_ERR_NO_COORDINATOR
    public :: HANARE_ERR_TIMEOUT, HANARE_ERR_RANK_GONE, HANARE_ERR_VERSION_MISMATCH, HANARE_ERR_KEY_REFUSED
    public :: HANARE_ERR_GARBAGE, HANARE_ERR_BAD_USE, HANARE_ERR_BAD_SETTING, HANARE_ERR_SYSTEM
    public :: HANARE_ERR_BAD_ARGUMENT, HANARE_ERR_DEFECT, HANARE_ERR_OTHER, HANARE_ERR_BAD_DIMENSION
    public :: HANARE_ERR_BAD_INDEX, HANARE_ERR_BAD_ELEMENT, HANARE_ERR_BROKEN_NOT_DONE, HANARE_ERR_BROKEN_DONE
    public :: HANARE_ERR_BROKEN, HANARE_ERR_NOT_IN_TIME, HANARE_ERR_LOCK_LOST, HANARE_ERR_LOCK_MISUSED
    public :: HANARE_ERR_BAD_GROUP, HANARE_ERR_PARTY_GONE, HANARE_ERR_NO_BLOCK, HANARE_ERR_HEAP_FULL
    public :: HANARE_ERR_IS_MAPPED, HANARE_ERR_PAGE_LOST, HANARE_ERR_NO_ATTRIBUTE, HANARE_ERR_NO_QUEUE
    public :: HANARE_ERR_QUEUE_FULL, HANARE_ERR_SECOND_READER, HANARE_ERR_NOT_A_WRITER, HANARE_ERR_BAD_BLOCK
    public :: HANARE_ERR_WRITER_GONE, HANARE_ERR_READER_GONE, HANARE_ERR_NOT_TRUSTED, HANARE_ERR_TOO_OLD
    public :: HANARE_ERR_TENANT_REFUSED, HANARE_ERR_TENANT_GONE, HANARE_MOST, HANARE_READ
    public :: HANARE_WRITE, HANARE_FOUND, HANARE_CREATED, HANARE_RENEWED, HANARE_EXPLICIT, HANARE_COHERENT
    public :: HANARE_ENTRY, HANARE_I32, HANARE_I64, HANARE_F32, HANARE_F64, HANARE_ADD, HANARE_MIN, HANARE_MAX

contains

    ! ---- Texts ----

    ! The text at a pointer of C, up to its zero byte.
    function text_at(ptr) result(text)
        type(c_ptr), intent(in) :: ptr
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: letters(:)
        integer :: at
        call c_f_pointer(ptr, letters, [c_strlen(ptr)])
        allocate (character(len=size(letters)) :: text)
        do at = 1, size(letters)
            text(at:at) = letters(at)
        end do
    end function

    ! A text as C takes it.
    pure function for_c(text) result(letters)
        character(len=*), intent(in) :: text
        character(kind=c_char) :: letters(len_trim(text) + 1)
        integer :: at
        do at = 1, len_trim(text)
            letters(at) = text(at:at)
        end do
        letters(len_trim(text) + 1) = c_null_char
    end function

    ! The message of this thread's last failed call; empty if none failed.
    function hanare_last_error() result(text)
        character(len=:), allocatable :: text
        text = text_at(c_last_error())
    end function

    ! The meaning of a code, without the details of hanare_last_error.
    function hanare_strerror(code) result(text)
        integer(c_int), intent(in) :: code
        character(len=:), allocatable :: text
        text = text_at(c_strerror(code))
    end function

    ! A code's name, as "HANARE_ERR_TIMEOUT".
    function hanare_code_name(code) result(text)
        integer(c_int), intent(in) :: code
        character(len=:), allocatable :: text
        text = text_at(c_code_name(code))
    end function

    ! Hands a result of C over to a program that asks for it. Another program ends here where the call failed.
    subroutine told(result, code)
        integer(c_int), intent(in) :: result
        integer(c_int), intent(out), optional :: code
        if (present(code)) then
            code = result
        else if (result < 0) then
            write (error_unit, '(a)') hanare_last_error()
            stop 1, quiet=.true.
        end if
    end subroutine

    ! ---- Pool ----

    ! Attaches to this host's node, and takes the rank that the launcher gave.
    subroutine hanare_attach(pool, code)
        type(hanare_pool), intent(inout) :: pool
        integer(c_int), intent(out), optional :: code
        integer(c_int) :: known
        ! Nodes count the commands of this module by it: hanare_use_as(HANARE_FACE_FORTRAN) in C.
        known = c_use_as(HANARE_FACE_FORTRAN)
        call told(c_attach(pool%handle), code)
    end subroutine

    ! Gives the attachment back.
    subroutine hanare_detach(pool, code)
        type(hanare_pool), intent(inout) :: pool
        integer(c_int), intent(out), optional :: code
        call told(c_detach(pool%handle), code)
        pool%handle = c_null_ptr
    end subroutine

    ! This program's number in its job, from 0.
    integer(c_int) function hanare_rank(pool) result(rank)
        type(hanare_pool), intent(in) :: pool
        rank = c_rank(pool%handle)
    end function

    ! The number of ranks of the job; 1 outside a job.
    integer(c_int) function hanare_ranks(pool) result(ranks)
        type(hanare_pool), intent(in) :: pool
        ranks = c_ranks(pool%handle)
    end function

    ! The number of this host's node.
    integer(c_int) function hanare_node(pool) result(node)
        type(hanare_pool), intent(in) :: pool
        node = c_node(pool%handle)
    end function

    ! Waits until every rank is here. Puts that ended before are seen by all after it.
    subroutine hanare_barrier(pool, code)
        type(hanare_pool), intent(in) :: pool
        integer(c_int), intent(out), optional :: code
        call told(c_barrier(pool%handle), code)
    end subroutine

    ! Waits until all earlier writes of this program are at their home.
    subroutine hanare_flush(pool, code)
        type(hanare_pool), intent(in) :: pool
        integer(c_int), intent(out), optional :: code
        call told(c_flush(pool%handle), code)
    end subroutine

    ! Ends the whole job with a status.
    subroutine hanare_abort(pool, status, code)
        type(hanare_pool), intent(in) :: pool
        integer(c_int), intent(in) :: status
        integer(c_int), intent(out), optional :: code
        call told(c_abort(pool%handle, status), code)
    end subroutine

    ! ---- Naming ----

    ! Options of a creation. C reads `place` during the call, so it stays the caller's variable.
    function options_of(place, placement, mode, copies) result(options)
        character(kind=c_char), allocatable, target, intent(inout) :: place(:)
        character(len=*), intent(in), optional :: placement
        integer, intent(in), optional :: mode, copies
        type(create_options) :: options
        options%struct_size = c_sizeof(options)
        options%placement = c_null_ptr
        options%mode = int(o'600', c_int32_t)
        options%refuse_lost = 0
        options%attributes = c_null_ptr
        options%attribute_count = 0
        options%copies = 0 ! what hanare run --copies says, else 1
        if (present(mode)) options%mode = int(mode, c_int32_t)
        if (present(copies)) options%copies = int(copies, c_int32_t)
        if (.not. present(placement)) return
        place = for_c(placement)
        options%placement = c_loc(place)
    end function

    ! Creates a region of `len` bytes, all zero. placement: "local" unless it is given; mode: that of a file, o'600'.
    subroutine hanare_create(pool, name, len, region, placement, mode, copies, code)
        type(hanare_pool), intent(in) :: pool
        character(len=*), intent(in) :: name
        integer(c_int64_t), intent(in) :: len
        type(hanare_region), intent(inout) :: region
        character(len=*), intent(in), optional :: placement
        integer, intent(in), optional :: mode, copies
        integer(c_int), intent(out), optional :: code
        character(kind=c_char), allocatable, target :: place(:)
        type(create_options) :: options
        options = options_of(place, placement, mode, copies)
        call told(c_create(pool%handle, for_c(name), len, options, region%handle), code)
    end subroutine

    ! Creates a region, or opens the region that has this name and length.
    subroutine hanare_create_or_attach(pool, name, len, region, placement, mode, copies, code)
        type(hanare_pool), intent(in) :: pool
        character(len=*), intent(in) :: name
        integer(c_int64_t), intent(in) :: len
        type(hanare_region), intent(inout) :: region
        character(len=*), intent(in), optional :: placement
        integer, intent(in), optional :: mode, copies
        integer(c_int), intent(out), optional :: code
        character(kind=c_char), allocatable, target :: place(:)
        type(create_options) :: options
        options = options_of(place, placement, mode, copies)
        call told(c_create_or_attach(pool%handle, for_c(name), len, options, region%handle), code)
    end subroutine

    ! Opens a region for HANARE_READ, HANARE_WRITE or HANARE_MOST.
    subroutine hanare_open(pool, name, rights, region, code)
        type(hanare_pool), intent(in) :: pool
        character(len=*), intent(in) :: name
        integer(c_int), intent(in) :: rights
        type(hanare_region), intent(inout) :: region
        integer(c_int), intent(out), optional :: code
        call told(c_open(pool%handle, for_c(name), rights, region%handle), code)
    end subroutine

    ! Gives a region back, with its map if it has one; the bytes stay in the pool.
    subroutine hanare_close(region, code)
        type(hanare_region), intent(inout) :: region
        integer(c_int), intent(out), optional :: code
        call told(c_close(region%handle), code)
        region%handle = c_null_ptr
    end subroutine

    ! Removes a region from the pool.
    subroutine hanare_remove(pool, name, code)
        type(hanare_pool), intent(in) :: pool
        character(len=*), intent(in) :: name
        integer(c_int), intent(out), optional :: code
        call told(c_remove(pool%handle, for_c(name)), code)
    end subroutine

    ! The region's bytes, or a negative code.
    integer(c_int64_t) function hanare_len(region) result(len)
        type(hanare_region), intent(in) :: region
        len = c_len(region%handle)
    end function

    ! 1 if all bytes lie on this host's node, 0 if not.
    integer(c_int) function hanare_is_local(region) result(is_local)
        type(hanare_region), intent(in) :: region
        is_local = c_is_local(region%handle)
    end function

    ! HANARE_FOUND, HANARE_CREATED or HANARE_RENEWED, of the call that opened the region.
    integer(c_int) function hanare_was_created(region) result(how)
        type(hanare_region), intent(in) :: region
        how = c_was_created(region%handle)
    end function

    ! ---- Put and get ----

    ! Copies `len` bytes of an array to the region at `offset`.
    subroutine hanare_put(region, offset, from, len, code)
        type(hanare_region), intent(in) :: region
        integer(c_int64_t), intent(in) :: offset
        type(*), dimension(*), intent(in) :: from
        integer(c_size_t), intent(in) :: len
        integer(c_int), intent(out), optional :: code
        call told(c_put(region%handle, offset, from, len), code)
    end subroutine

    ! Copies `len` bytes of the region at `offset` to an array.
    subroutine hanare_get(region, offset, into, len, code)
        type(hanare_region), intent(in) :: region
        integer(c_int64_t), intent(in) :: offset
        type(*), dimension(*), intent(inout) :: into
        integer(c_size_t), intent(in) :: len
        integer(c_int), intent(out), optional :: code
        call told(c_get(region%handle, offset, into, len), code)
    end subroutine

    ! Scatters `len` bytes of an array over the blocks of `shape`, in order.
    subroutine hanare_put_strided(region, shape, from, len, code)
        type(hanare_region), intent(in) :: region
        type(hanare_strided), intent(in) :: shape
        type(*), dimension(*), intent(in) :: from
        integer(c_size_t), intent(in) :: len
        integer(c_int), intent(out), optional :: code
        call told(c_put_strided(region%handle, shape, from, len), code)
    end subroutine

    ! Gathers the blocks of `shape` into `len` bytes of an array, in order.
    subroutine hanare_get_strided(region, shape, into, len, code)
        type(hanare_region), intent(in) :: region
        type(hanare_strided), intent(in) :: shape
        type(*), dimension(*), intent(inout) :: into
        integer(c_size_t), intent(in) :: len
        integer(c_int), intent(out), optional :: code
        call told(c_get_strided(region%handle, shape, into, len), code)
    end subroutine

    ! ---- Map ----

    ! Maps a region of this host's node. c_f_pointer makes an array of `ptr`, which is good until hanare_unmap or hanare_close.
    subroutine hanare_map(region, ptr, len, code)
        type(hanare_region), intent(in) :: region
        type(c_ptr), intent(inout) :: ptr
        integer(c_size_t), intent(inout) :: len
        integer(c_int), intent(out), optional :: code
        call told(c_map(region%handle, ptr, len), code)
    end subroutine

    ! Maps a region on whatever nodes it lies: HANARE_EXPLICIT, HANARE_COHERENT or HANARE_ENTRY.
    subroutine hanare_map_shared(region, consistency, ptr, len, code)
        type(hanare_region), intent(in) :: region
        integer(c_int), intent(in) :: consistency
        type(c_ptr), intent(inout) :: ptr
        integer(c_size_t), intent(inout) :: len
        integer(c_int), intent(out), optional :: code
        call told(c_map_shared(region%handle, consistency, ptr, len), code)
    end subroutine

    ! Makes this program's stores to a range visible at their home.
    subroutine hanare_flush_range(region, offset, len, code)
        type(hanare_region), intent(in) :: region
        integer(c_int64_t), intent(in) :: offset, len
        integer(c_int), intent(out), optional :: code
        call told(c_flush_range(region%handle, offset, len), code)
    end subroutine

    ! Lets this program see stores that others have made visible in a range.
    subroutine hanare_update_range(region, offset, len, code)
        type(hanare_region), intent(in) :: region
        integer(c_int64_t), intent(in) :: offset, len
        integer(c_int), intent(out), optional :: code
        call told(c_update_range(region%handle, offset, len), code)
    end subroutine

    ! Gives the mapping back; no pointer into it may be used any more.
    subroutine hanare_unmap(region, code)
        type(hanare_region), intent(in) :: region
        integer(c_int), intent(out), optional :: code
        call told(c_unmap(region%handle), code)
    end subroutine

    ! ---- Groups ----

    ! Opens the group of the ranks of the job, or joins the `parties` programs of a group of that name.
    subroutine hanare_group_open(pool, group, name, parties, code)
        type(hanare_pool), intent(in) :: pool
        type(hanare_group), intent(inout) :: group
        character(len=*), intent(in), optional :: name
        integer, intent(in), optional :: parties
        integer(c_int), intent(out), optional :: code
        character(kind=c_char), allocatable, target :: letters(:)
        type(c_ptr) :: ptr
        integer(c_int32_t) :: count
        ptr = c_null_ptr
        count = 0
        if (present(name)) then
            letters = for_c(name)
            ptr = c_loc(letters)
        end if
        if (present(parties)) count = int(parties, c_int32_t)
        call told(c_group_open(pool%handle, ptr, count, group%handle), code)
    end subroutine

    ! Waits until all parties of the group are here.
    subroutine hanare_group_meet(group, code)
        type(hanare_group), intent(in) :: group
        integer(c_int), intent(out), optional :: code
        call told(c_group_meet(group%handle), code)
    end subroutine

    ! Leaves a group.
    subroutine hanare_group_close(group, code)
        type(hanare_group), intent(inout) :: group
        integer(c_int), intent(out), optional :: code
        call told(c_group_close(group%handle), code)
        group%handle = c_null_ptr
    end subroutine

    ! This party's number, from 0.
    integer(c_int) function hanare_group_number(group) result(number)
        type(hanare_group), intent(in) :: group
        number = c_group_number(group%handle)
    end function

    ! The number of parties of the group.
    integer(c_int) function hanare_group_parties(group) result(parties)
        type(hanare_group), intent(in) :: group
        parties = c_group_parties(group%handle)
    end function

    ! Gives all parties the `len` bytes of the party `root`.
    subroutine hanare_broadcast(group, values, len, root, code)
        type(hanare_group), intent(in) :: group
        type(*), dimension(*), intent(inout) :: values
        integer(c_size_t), intent(in) :: len
        integer, intent(in) :: root
        integer(c_int), intent(out), optional :: code
        call told(c_broadcast(group%handle, values, len, int(root, c_int32_t)), code)
    end subroutine

    ! Sets `count` numbers of each party to what the operator makes of those of all. element: HANARE_I32 to HANARE_F64.
    subroutine hanare_all_reduce(group, values, count, element, op, code)
        type(hanare_group), intent(in) :: group
        type(*), dimension(*), intent(inout) :: values
        integer(c_size_t), intent(in) :: count
        integer(c_int), intent(in) :: element, op
        integer(c_int), intent(out), optional :: code
        call told(c_all_reduce(group%handle, values, count, element, op), code)
    end subroutine
end module hanare
