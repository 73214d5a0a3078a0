//! Every transition of a region on a host, of a home as the host knows it, and of a sharer.

use crate::table::Row;

/// A region on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Programs map it, or are about to; no home is asked anything.
    Rest,
    /// Homes are asked what the grants of a program allow.
    Asking,
    /// No program maps it: its pages go home.
    Emptying,
    /// The homes were told that nothing is here.
    Telling,
    /// No home knows this host any more.
    Gone,
}

/// An event of a region on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A program wants to map it.
    Ask,
    /// The last home has answered.
    AnswerLast,
    /// No program maps it, or it is of no more use.
    Leave,
    /// All pages are home, or will not come.
    Tell,
    /// The last home knows.
    LeftLast,
    /// The node was taken for lost.
    BeginAnew,
}

/// The transitions of a region on a host.
pub const REGION: &[Row<Phase, Event>] = &[
    Row { event: Event::Ask, from: &[Phase::Rest], to: Phase::Asking },
    Row { event: Event::AnswerLast, from: &[Phase::Asking], to: Phase::Rest },
    Row { event: Event::Leave, from: &[Phase::Rest, Phase::Asking], to: Phase::Emptying },
    Row { event: Event::Tell, from: &[Phase::Emptying], to: Phase::Telling },
    Row { event: Event::LeftLast, from: &[Phase::Telling], to: Phase::Gone },
    Row { event: Event::BeginAnew, from: &[Phase::Rest, Phase::Asking], to: Phase::Rest },
    Row { event: Event::BeginAnew, from: &[Phase::Emptying, Phase::Telling], to: Phase::Emptying },
];

/// A home, as a host of its region knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HomePhase {
    /// The home does not know this host.
    Stranger,
    /// The home has its first request.
    Asked,
    /// The home has given a membership.
    Shared,
    /// The home has given a membership, and is asked for another program.
    AskedAgain,
    /// The home was told that nothing is here.
    Told,
    /// The home is back after it was taken for lost, and gets its pages.
    Handing,
    /// The home is lost. Its pages here stay, and none come.
    Lost,
}

/// An event between a host and a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeEvent {
    /// The host asks what a program's grants allow.
    Ask,
    /// The home takes the host in.
    Accept,
    /// The home refuses this program.
    Refuse,
    /// The host says that nothing is here.
    Tell,
    /// The home has forgotten this host.
    Forget,
    /// The home is lost.
    Lose,
    /// The home is back, and wants its pages.
    Return,
}

/// The transitions of a home as a host knows it.
pub const HOME: &[Row<HomePhase, HomeEvent>] = &[
    Row { event: HomeEvent::Ask, from: &[HomePhase::Stranger, HomePhase::Asked], to: HomePhase::Asked },
    Row { event: HomeEvent::Ask, from: &[HomePhase::Shared, HomePhase::AskedAgain], to: HomePhase::AskedAgain },
    Row { event: HomeEvent::Accept, from: &[HomePhase::Asked, HomePhase::AskedAgain], to: HomePhase::Shared },
    Row { event: HomeEvent::Refuse, from: &[HomePhase::Asked], to: HomePhase::Stranger },
    Row { event: HomeEvent::Refuse, from: &[HomePhase::AskedAgain], to: HomePhase::Shared },
    Row { event: HomeEvent::Tell, from: &[HomePhase::Shared], to: HomePhase::Told },
    Row {
        event: HomeEvent::Forget,
        from: &[
            HomePhase::Stranger,
            HomePhase::Asked,
            HomePhase::Shared,
            HomePhase::AskedAgain,
            HomePhase::Told,
            HomePhase::Handing,
            HomePhase::Lost,
        ],
        to: HomePhase::Stranger,
    },
    Row {
        event: HomeEvent::Lose,
        from: &[
            HomePhase::Stranger,
            HomePhase::Asked,
            HomePhase::Shared,
            HomePhase::AskedAgain,
            HomePhase::Told,
            HomePhase::Lost,
        ],
        to: HomePhase::Lost,
    },
    Row { event: HomeEvent::Lose, from: &[HomePhase::Handing], to: HomePhase::Handing },
    Row {
        event: HomeEvent::Return,
        from: &[HomePhase::Shared, HomePhase::AskedAgain, HomePhase::Handing, HomePhase::Lost],
        to: HomePhase::Handing,
    },
    Row { event: HomeEvent::Return, from: &[HomePhase::Told], to: HomePhase::Told },
];

/// A host, as a home of the region knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharerPhase {
    /// No host has that number.
    Nobody,
    /// The host maps the region.
    Here,
    /// The host has let go of everything; pages that it passed on are under way.
    Draining,
    /// The home is back, and waits for what it has.
    Awaited,
    /// The host has sent all its pages, or is lost, while the home waits for others.
    Answered,
}

/// An event of a sharer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharerEvent {
    /// The host joins.
    Join,
    /// The host leaves, and the pages that it passed on have arrived.
    Leave,
    /// The host leaves before the pages that it passed on have arrived.
    LeaveEarly,
    /// The host is lost with its node.
    Lose,
    /// The home is back.
    Return,
    /// The host replies to the returned home.
    Answer,
    /// The home begins anew.
    End,
}

/// The transitions of a sharer.
pub const SHARER: &[Row<SharerPhase, SharerEvent>] = &[
    Row { event: SharerEvent::Join, from: &[SharerPhase::Nobody, SharerPhase::Here], to: SharerPhase::Here },
    Row { event: SharerEvent::Leave, from: &[SharerPhase::Here, SharerPhase::Draining], to: SharerPhase::Nobody },
    Row { event: SharerEvent::LeaveEarly, from: &[SharerPhase::Here, SharerPhase::Draining], to: SharerPhase::Draining },
    Row { event: SharerEvent::Lose, from: &[SharerPhase::Here, SharerPhase::Draining], to: SharerPhase::Nobody },
    Row {
        event: SharerEvent::Return,
        from: &[SharerPhase::Here, SharerPhase::Draining, SharerPhase::Awaited],
        to: SharerPhase::Awaited,
    },
    Row { event: SharerEvent::Return, from: &[SharerPhase::Answered], to: SharerPhase::Answered },
    Row { event: SharerEvent::Answer, from: &[SharerPhase::Awaited], to: SharerPhase::Answered },
    Row { event: SharerEvent::End, from: &[SharerPhase::Awaited, SharerPhase::Answered], to: SharerPhase::Nobody },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn the_tables_are_those_in_the_text_and_say_one_thing() {
        let text = format!("{}\n{}\n{}", table::print(REGION), table::print(HOME), table::print(SHARER));
        assert_eq!(text, include_str!("table.txt"));
        assert_eq!(table::contradiction(REGION), None);
        assert_eq!(table::contradiction(HOME), None);
        assert_eq!(table::contradiction(SHARER), None);
    }
}
