//! Defects that can be put into the pool, and the runs that can show them.

use crate::harness::defects;

defects! {
    /// The coordinator's process acts on outputs before their records are committed.
    SpeakEarly,
    /// A node does not free extents.
    FreeNothing,
    /// A node goes on with the grants of its old epoch.
    KeepGrants,
    /// A node forgets extents when its connection closes.
    ForgetExtents,
    /// The barrier's home releases a rank when the first arrives.
    ReleaseEarly,
    /// A node answers requests of its clients never.
    SwallowAnswers,
    /// A new life of a node claims to be the old one.
    ReuseIncarnation,
    /// The coordinator counts members of the last release for members of today's.
    LeaveOutOlder,
    /// The coordinator takes nodes that are away for nodes of today's release.
    LookAtMembers,
    /// The coordinator admits a node of the last release to a pool whose journal tells of something younger.
    AdmitOlder,
    /// A node tells the coordinator what only its own release knows.
    SpeakNewest,
    /// The next coordinator knows of no quotas of tenants.
    ForgetQuotas,
    /// The next coordinator gives out the numbers of removed tenants again.
    GiveNumbersAgain,
    /// A node does not say for whom it opens a region by its number.
    AskAsRoot,
    /// A node has each key of a tenant looked at once, and believes it later.
    ProveOnce,
    /// The home of words applies and answers before copies have the write.
    ApplyFirst,
    /// The copy with the fewest writes is elected.
    ElectLeast,
    /// A home answers after its lease.
    ForgetLease,
    /// A write that is sent again is applied again.
    AddTwice,
    /// A home goes on without a silent copy before the coordinator has dropped it.
    DropAlone,
    /// A copy is admitted before it has all.
    AdmitEarly,
    /// A copy of a node that died meanwhile is admitted.
    AdmitDead,
    /// A copy that is made gets no writes meanwhile.
    MissWhileMade,
    /// A copy applies a write late: when the next one comes.
    ApplyLate,
    /// Messages that were lost with a connection are not sent again.
    ForgetLost,
    /// A copy that is silent is never given up.
    WaitForEver,
    /// A home goes on without copies after its extent is ready for some.
    WriteDirectly,
    /// A node whose host runs short of memory says that it lends as much as ever.
    HideShortage,
    /// A home tells of use by programs of other hosts that it did not see.
    InventUse,
    /// A home does not tell which hosts use its extents most.
    HideUse,
    /// The next coordinator forgets which nodes are drained.
    ForgetDrains,
    /// Units of an append that is sent again count again.
    CountAgain,
    /// A home says that units are freed, and frees none.
    ForgetFrees,
    /// A reader frees units when it sees that they are there, and dies before it has them.
    FreeFetched,
    /// Copies do not hear what readers have freed.
    ForgetHeads,
    /// Copies that are made do not hear who writes and who reads.
    ForgetPorts,
    /// The home of queues does not hear that connections end.
    KeepPorts,
    /// Stores of a flush have their effect at the home before its last part has come.
    ApplyParts,
    /// Copies do not get parts of stores before the last one.
    LosePart,
    /// Closing a connection of a sender leaves what was not sent to the kernel.
    SendOn,
    /// A node goes on with a link whose successor it greeted.
    ServeBoth,
    /// Copies go on when their link has ended.
    KeepFetching,
    /// A link is kept whose bytes are on their way into an extent for another one that has ended.
    KeepLink,
    /// A node reads what the dead left before it looks who is dead.
    ServeTheDead,
    /// A node answers a command when it begins to come.
    AnswerFirst,
    /// A node ends its round when the links of one user had their turn.
    ServeOneUser,
    /// The coordinator of a keeper that leads, or led, acts on outputs before a majority has their batch.
    AnswerUndecided,
    /// Answers without records leave without a round of questions.
    SkipRounds,
    /// A follower takes a snapshot that is older than what it has read.
    TakeStaleSnapshot,
    /// Readers count batches of earlier reigns.
    CountEarlierReign,
    /// The next coordinator gives out the numbers of regions again that one before it gave out.
    GiveGidsAgain,
    /// The coordinator does not know who the keepers are.
    ForgetKeepers,
    /// A keeper takes part that cannot read the log.
    AnyKeeperReads,
    /// A node tells one coordinator of a rank that is gone, and not the next.
    TellOnce,
    /// Some grants to waiters are not passed on.
    ForgetGrants,
    /// A waiting claimant is sometimes told that it has the lock.
    GrantTwice,
    /// The home is not told of connections that end.
    KeepDead,
    /// Connections that end are taken for threads that give everything back.
    DieQuietly,
    /// The home's deadlines are not kept: its process never ticks.
    ForgetBounds,
    /// The home's deadlines are kept late.
    TickLate,
    /// The home does not hear that programs give up waiting, and they are answered.
    ForgetWithdrawals,
    /// The first party at a group's barrier is sometimes let through.
    ReleasePartyEarly,
    /// Parties are not told that one went.
    SwallowFailures,
    /// A home of names that begins again takes all locks for free.
    TrustRestart,
    /// A claimant that gives up waiting is taken for a holder that gives the lock back.
    WithdrawLikeUnlock,
    /// A node says of locks that are held that they are kept.
    YieldHeld,
    /// A node says that a lock is kept and does not take it back.
    RecallSoftly,
    /// Locks that were kept by a program that died count as abandoned.
    BuryKept,
    /// A question that is lost is not asked again.
    AskOnce,
    /// A home that nodes do not hear takes their programs' leases for over.
    GiveUpUnheard,
    /// A holder that is to redo a release says so at once.
    SkipRedo,
    /// A release sends all that was stored in its pages.
    SendPages,
    /// Stores are sent before the release is named.
    SendBeforePublish,
    /// Bytes that come with a lock are not taken in.
    ForgetBytes,
    /// A release in one message puts some of its bytes.
    PutHalf,
    /// A release in one message is answered before its bytes are put.
    AnswerBeforePut,
    /// An update leaves pages without stores as they are.
    KeepStale,
    /// A program that lost a lock takes its bytes for those of the version that it had named.
    KeepVersion,
    /// Bytes that come for a page with stores leave the clean bytes as they were.
    PatchFramesAlone,
    /// Stores of the dead arrive after others have the lock.
    LetDeadWrite,
}

impl Defect {
    /// True if only runs with locks can show it.
    pub fn is_of_locks(self) -> bool {
        self as usize >= Defect::ForgetGrants as usize
    }

    /// True if only runs with data bound to locks can show it.
    pub fn is_of_entries(self) -> bool {
        self as usize >= Defect::SkipRedo as usize
    }

    /// True if only runs with programs of words can show it.
    pub fn is_of_words(self) -> bool {
        (Defect::ApplyFirst as usize..Defect::AnswerUndecided as usize).contains(&(self as usize))
    }

    /// True if only runs with queues can show it.
    pub fn is_of_queues(self) -> bool {
        (Defect::CountAgain as usize..Defect::SendOn as usize).contains(&(self as usize))
    }

    /// True if only runs with senders can show it.
    pub fn is_of_senders(self) -> bool {
        (Defect::SendOn as usize..Defect::AnswerUndecided as usize).contains(&(self as usize))
    }

    /// True if only runs with two releases can show it.
    pub fn is_of_releases(self) -> bool {
        matches!(
            self,
            Defect::LeaveOutOlder
                | Defect::LookAtMembers
                | Defect::AdmitOlder
                | Defect::SpeakNewest
                | Defect::ForgetKeepers
                | Defect::AnyKeeperReads
        )
    }

    /// True if only runs with tenants can show it.
    pub fn is_of_tenants(self) -> bool {
        let is_one = (Defect::ForgetQuotas as usize..Defect::ApplyFirst as usize).contains(&(self as usize));
        is_one || self.is_of_releases()
    }

    /// True if only runs with regions that follow their users can show it.
    pub fn is_of_followers(self) -> bool {
        matches!(self, Defect::InventUse | Defect::HideUse | Defect::ForgetDrains)
    }

    /// True if neither locks nor jobs show it.
    pub fn is_of_others(self) -> bool {
        (self.is_of_words() || self.is_of_keepers()) && self != Defect::TellOnce
    }

    /// True if only pools with keepers can show it.
    pub fn is_of_keepers(self) -> bool {
        (Defect::AnswerUndecided as usize..Defect::ForgetGrants as usize).contains(&(self as usize))
    }
}
