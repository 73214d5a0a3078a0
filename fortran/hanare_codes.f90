! Numbers of hanare.h: codes of results, and words that calls take. A test compares each with the header.
module hanare_codes
    use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
    implicit none
    public

    integer(c_int), parameter :: HANARE_OK = 0 ! done
    integer(c_int), parameter :: HANARE_ERR_UNKNOWN_REGION = -1 ! no region of that name
    integer(c_int), parameter :: HANARE_ERR_NAME_TAKEN = -2 ! a region of that name exists
    integer(c_int), parameter :: HANARE_ERR_BAD_NAME = -3 ! the name is empty, too long, or holds a byte that a file name cannot
    integer(c_int), parameter :: HANARE_ERR_BAD_LENGTH = -4 ! zero, smaller than the region is, or another than an existing region's
    integer(c_int), parameter :: HANARE_ERR_BAD_PLACEMENT = -5 ! no such node, or a chunk that is no power of two of at least a page
    integer(c_int), parameter :: HANARE_ERR_OUT_OF_RANGE = -6 ! some byte lies beyond the region's end
    integer(c_int), parameter :: HANARE_ERR_BAD_SHAPE = -7 ! blocks overlap, a product overflows, or the buffer's length differs
    integer(c_int), parameter :: HANARE_ERR_NO_PERMISSION = -8 ! the user may not do that to the region
    integer(c_int), parameter :: HANARE_ERR_QUOTA_EXCEEDED = -9 ! the user's quota would be exceeded
    integer(c_int), parameter :: HANARE_ERR_POOL_FULL = -10 ! not that much free memory where the placement wants it
    integer(c_int), parameter :: HANARE_ERR_LIMIT_REACHED = -11 ! a named limit of the pool was reached
    integer(c_int), parameter :: HANARE_ERR_NODE_LOST = -12 ! a node is gone
    integer(c_int), parameter :: HANARE_ERR_REGION_LOST = -13 ! the region's bytes went with their node
    integer(c_int), parameter :: HANARE_ERR_GRANT_REFUSED = -14 ! the region was opened before its node came back
    integer(c_int), parameter :: HANARE_ERR_NO_NODE = -15 ! no node answers on this host
    integer(c_int), parameter :: HANARE_ERR_NO_COORDINATOR = -16 ! naming fails for now
    integer(c_int), parameter :: HANARE_ERR_TIMEOUT = -17 ! no answer within the bound
    integer(c_int), parameter :: HANARE_ERR_RANK_GONE = -18 ! a rank of the job ended while others wait for it
    integer(c_int), parameter :: HANARE_ERR_VERSION_MISMATCH = -19 ! the other side is another build
    integer(c_int), parameter :: HANARE_ERR_KEY_REFUSED = -20 ! a side lacks the pool's key
    integer(c_int), parameter :: HANARE_ERR_GARBAGE = -21 ! a peer sent something that makes no sense
    integer(c_int), parameter :: HANARE_ERR_BAD_USE = -22 ! the region cannot be used that way
    integer(c_int), parameter :: HANARE_ERR_BAD_SETTING = -23 ! a HANARE_… variable has no usable value
    integer(c_int), parameter :: HANARE_ERR_SYSTEM = -24 ! the operating system refused something
    integer(c_int), parameter :: HANARE_ERR_BAD_ARGUMENT = -25 ! NULL, not UTF-8, or a number that means nothing
    integer(c_int), parameter :: HANARE_ERR_DEFECT = -26 ! a defect of this library was caught at its border
    integer(c_int), parameter :: HANARE_ERR_OTHER = -27 ! an error younger than this header
    integer(c_int), parameter :: HANARE_ERR_BAD_DIMENSION = -28 ! a dimension of a sub-array leads out of the region
    integer(c_int), parameter :: HANARE_ERR_BAD_INDEX = -29 ! an index names a block beyond the region's end
    integer(c_int), parameter :: HANARE_ERR_BAD_ELEMENT = -30 ! elements of that kind, or at that place, do not go with the operation
    integer(c_int), parameter :: HANARE_ERR_BROKEN_NOT_DONE = -31 ! the connection broke under an update, which did not happen
    integer(c_int), parameter :: HANARE_ERR_BROKEN_DONE = -32 ! it broke when the update was done
    integer(c_int), parameter :: HANARE_ERR_BROKEN = -33 ! it broke, and the update may or may not have happened
    integer(c_int), parameter :: HANARE_ERR_NOT_IN_TIME = -34 ! a lock or a word did not come within the bound
    integer(c_int), parameter :: HANARE_ERR_LOCK_LOST = -35 ! the connection broke under a lock
    integer(c_int), parameter :: HANARE_ERR_LOCK_MISUSED = -36 ! this thread has the lock already, or has not got it
    integer(c_int), parameter :: HANARE_ERR_BAD_GROUP = -37 ! the group has another number of parties, or all of them
    integer(c_int), parameter :: HANARE_ERR_PARTY_GONE = -38 ! a party of the group left or ended while others need it
    integer(c_int), parameter :: HANARE_ERR_NO_BLOCK = -39 ! no block of the heap begins there
    integer(c_int), parameter :: HANARE_ERR_HEAP_FULL = -40 ! the heap has no free block that is long enough
    integer(c_int), parameter :: HANARE_ERR_IS_MAPPED = -41 ! programs have it mapped coherently, so that its memory is not reached as it is
    integer(c_int), parameter :: HANARE_ERR_PAGE_LOST = -42 ! bytes of a page went with the host that stored them
    integer(c_int), parameter :: HANARE_ERR_NO_ATTRIBUTE = -43 ! the region has no attribute of that name
    integer(c_int), parameter :: HANARE_ERR_NO_QUEUE = -44 ! no queue is there, or its memory makes no sense
    integer(c_int), parameter :: HANARE_ERR_QUEUE_FULL = -45 ! the queue has no room, nor its spill
    integer(c_int), parameter :: HANARE_ERR_SECOND_READER = -46 ! another program reads the queue
    integer(c_int), parameter :: HANARE_ERR_NOT_A_WRITER = -47 ! the lane is not this writer's any more
    integer(c_int), parameter :: HANARE_ERR_BAD_BLOCK = -48 ! a block of another length than the queue's, or a record beyond its longest
    integer(c_int), parameter :: HANARE_ERR_WRITER_GONE = -49 ! a writer died
    integer(c_int), parameter :: HANARE_ERR_READER_GONE = -50 ! the reader died while this writer waits for room
    integer(c_int), parameter :: HANARE_ERR_NOT_TRUSTED = -51 ! a user made the region that this program does not trust
    integer(c_int), parameter :: HANARE_ERR_TOO_OLD = -52 ! a node of the pool is of an older build that does not know the request
    integer(c_int), parameter :: HANARE_ERR_TENANT_REFUSED = -53 ! the pool has no tenant of that name and key: see HANARE_TENANT
    integer(c_int), parameter :: HANARE_ERR_TENANT_GONE = -54 ! the program's tenant was removed from the pool

    ! Rights of hanare_open.
    integer(c_int), parameter :: HANARE_MOST = 0 ! the most that the user may do
    integer(c_int), parameter :: HANARE_READ = 1
    integer(c_int), parameter :: HANARE_WRITE = 2

    ! Results of hanare_was_created.
    integer(c_int), parameter :: HANARE_FOUND = 0
    integer(c_int), parameter :: HANARE_CREATED = 1
    integer(c_int), parameter :: HANARE_RENEWED = 2

    ! Ways of hanare_map_shared.
    integer(c_int), parameter :: HANARE_EXPLICIT = 1
    integer(c_int), parameter :: HANARE_COHERENT = 2
    integer(c_int), parameter :: HANARE_ENTRY = 3

    ! Kinds of numbers for hanare_all_reduce: integer(int32), integer(int64), real(real32), real(real64).
    integer(c_int), parameter :: HANARE_I32 = 6
    integer(c_int), parameter :: HANARE_I64 = 8
    integer(c_int), parameter :: HANARE_F32 = 9
    integer(c_int), parameter :: HANARE_F64 = 10

    ! Operators of hanare_all_reduce.
    integer(c_int), parameter :: HANARE_ADD = 1
    integer(c_int), parameter :: HANARE_MIN = 2
    integer(c_int), parameter :: HANARE_MAX = 3

    ! The face by which nodes count the commands of this module.
    integer(c_int), parameter :: HANARE_FACE_FORTRAN = 5
end module hanare_codes
