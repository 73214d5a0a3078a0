! Heat on a square plate, by ranks that each have a tile of it in a region of their own node.
!
!     hanare run --nodes 2 -n 4 ./heat 48 100
!
! The plate has 48 by 48 points, the edge above it is hot. A step makes each point the mean of its four neighbours. Before a step each
! rank puts its outermost points into its neighbours' halos: columns as they lie, rows as strided blocks. Two turns of a tile are used
! alternately, so one barrier a step is enough. Rank 0 compares all tiles with a run of its own, bit by bit.
program heat
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: real64, int64, error_unit
    use hanare
    implicit none

    integer, parameter :: NORTH = 1, SOUTH = 2, WEST = 3, EAST = 4
    integer(int64), parameter :: POINT_LEN = 8 ! bytes of a point

    ! Ranks stand in `down` rows and `across` columns. A tile has `rows` by `columns` points, and a halo around them.
    integer :: rank, ranks, down, across, rows, columns, side, steps, step
    type(hanare_pool) :: pool
    type(hanare_group) :: group
    type(hanare_region) :: own, beside(4)
    logical :: is_there(4)
    real(real64), pointer :: tile(:, :, :)
    real(real64) :: change(1)

    side = argument(1, 48)
    steps = argument(2, 100)
    call hanare_attach(pool)
    rank = hanare_rank(pool)
    ranks = hanare_ranks(pool)
    call hanare_group_open(pool, group)
    call deal
    call make_tile
    call open_neighbours
    do step = 1, steps
        call exchange(turn_of(step - 1))
        call hanare_barrier(pool)
        call relax(tile(:, :, turn_of(step - 1)), tile(:, :, turn_of(step)))
    end do
    change = maxval(abs(tile(1:rows, 1:columns, 1) - tile(1:rows, 1:columns, 2)))
    call hanare_all_reduce(group, change, 1_c_size_t, HANARE_F64, HANARE_MAX)
    call hanare_group_meet(group)
    if (rank == 0) call compare
    call hanare_barrier(pool)
    call leave

contains

    ! A number of the command line.
    integer function argument(at, otherwise) result(number)
        integer, intent(in) :: at, otherwise
        character(len=32) :: word
        integer :: status
        number = otherwise
        if (command_argument_count() < at) return
        call get_command_argument(at, word)
        read (word, *, iostat=status) number
        if (status == 0 .and. number > 0) return
        write (error_unit, '(3a)') "heat: '", trim(word), "' is no number of at least 1: heat [SIDE [STEPS]]"
        stop 2
    end function

    ! The turn of a tile that a step has filled.
    pure integer function turn_of(step) result(turn)
        integer, intent(in) :: step
        turn = 1 + modulo(step, 2)
    end function

    ! Ranks in a rectangle that is as square as their number allows.
    subroutine deal
        down = int(sqrt(real(ranks, real64)))
        do while (modulo(ranks, down) /= 0)
            down = down - 1
        end do
        across = ranks / down
        rows = side / down
        columns = side / across
        if (rows * down == side .and. columns * across == side) return
        if (rank == 0) write (error_unit, '(3(a, i0))') &
            "heat: a side of ", side, " points cannot be dealt to ", down, " by ", across
        stop 2
    end subroutine

    function name_of(number) result(name)
        integer, intent(in) :: number
        character(len=32) :: name
        write (name, '(a, i0)') "heat.", number
    end function

    ! Byte of a point of a tile; row and column 0 are the halo.
    pure integer(int64) function offset_of(row, column, turn) result(offset)
        integer, intent(in) :: row, column, turn
        offset = POINT_LEN * (row + int(rows + 2, int64) * (column + int(columns + 2, int64) * (turn - 1)))
    end function

    ! The tile lies in a region of this host, and is used as an array. The hot edge is the halo of the uppermost tiles.
    subroutine make_tile
        type(c_ptr) :: ptr
        integer(c_size_t) :: len
        call hanare_create_or_attach(pool, name_of(rank), offset_of(0, 0, 3), own)
        call hanare_map(own, ptr, len)
        call c_f_pointer(ptr, tile, [rows + 2, columns + 2, 2])
        tile(0:, 0:, 1:) => tile
        tile = 0
        if (rank / across == 0) tile(0, :, :) = 1
    end subroutine

    subroutine open_neighbours
        integer :: numbers(4), side_at
        is_there = [rank / across > 0, rank / across < down - 1, modulo(rank, across) > 0, modulo(rank, across) < across - 1]
        numbers = [rank - across, rank + across, rank - 1, rank + 1]
        ! All regions are there, with their edges.
        call hanare_barrier(pool)
        do side_at = NORTH, EAST
            if (is_there(side_at)) call hanare_open(pool, name_of(numbers(side_at)), HANARE_WRITE, beside(side_at))
        end do
    end subroutine

    subroutine exchange(turn)
        integer, intent(in) :: turn
        call put_row(NORTH, 1, rows + 1, turn)
        call put_row(SOUTH, rows, 0, turn)
        call put_column(WEST, 1, columns + 1, turn)
        call put_column(EAST, columns, 0, turn)
    end subroutine

    ! Points of a row lie apart from each other: one command scatters them.
    subroutine put_row(to, row, halo, turn)
        integer, intent(in) :: to, row, halo, turn
        type(hanare_strided) :: shape
        if (.not. is_there(to)) return
        shape = hanare_strided(offset_of(halo, 1, turn), POINT_LEN, columns, POINT_LEN * (rows + 2))
        call hanare_put_strided(beside(to), shape, tile(row, 1:columns, turn), POINT_LEN * columns)
    end subroutine

    subroutine put_column(to, column, halo, turn)
        integer, intent(in) :: to, column, halo, turn
        if (.not. is_there(to)) return
        call hanare_put(beside(to), offset_of(1, halo, turn), tile(1:rows, column, turn), POINT_LEN * rows)
    end subroutine

    ! One step of any tile: the inner points of `after`.
    pure subroutine relax(before, after)
        real(real64), intent(in) :: before(0:, 0:)
        real(real64), intent(inout) :: after(0:, 0:)
        integer :: row, column
        do column = 1, ubound(before, 2) - 1
            do row = 1, ubound(before, 1) - 1
                after(row, column) = 0.25_real64 * (before(row - 1, column) + before(row + 1, column) &
                                                    + before(row, column - 1) + before(row, column + 1))
            end do
        end do
    end subroutine

    ! The whole plate after all steps, in main memory.
    function alone() result(plate)
        real(real64), allocatable :: plate(:, :), turns(:, :, :)
        integer :: at
        allocate (turns(0:side + 1, 0:side + 1, 2), source=0.0_real64)
        turns(0, :, :) = 1
        do at = 1, steps
            call relax(turns(:, :, turn_of(at - 1)), turns(:, :, turn_of(at)))
        end do
        plate = turns(1:side, 1:side, turn_of(steps))
    end function

    ! Fetches the inner points of each tile, and counts those that are not as in a serial run.
    subroutine compare
        real(real64) :: plate(side, side), part(rows, columns)
        type(hanare_strided) :: inner
        type(hanare_region) :: region
        integer :: number, row, column
        inner = hanare_strided(offset_of(1, 1, turn_of(steps)), POINT_LEN * rows, columns, POINT_LEN * (rows + 2))
        do number = 0, ranks - 1
            call hanare_open(pool, name_of(number), HANARE_READ, region)
            call hanare_get_strided(region, inner, part, c_sizeof(part))
            call hanare_close(region)
            row = rows * (number / across)
            column = columns * modulo(number, across)
            plate(row + 1:row + rows, column + 1:column + columns) = part
        end do
        print '(4(a, i0), 2(a, g0))', "ranks=", ranks, " side=", side, " steps=", steps, &
            " wrong=", count(abs(plate - alone()) > 0), " change=", change(1), " sum=", sum(plate)
    end subroutine

    subroutine leave
        integer :: side_at
        do side_at = NORTH, EAST
            if (is_there(side_at)) call hanare_close(beside(side_at))
        end do
        call hanare_close(own)
        call hanare_remove(pool, name_of(rank))
        call hanare_group_close(group)
        call hanare_detach(pool)
    end subroutine
end program heat
