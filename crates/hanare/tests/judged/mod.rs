//! Programs, faults and judge of the test `judged_copies`.

pub mod client;
pub mod faults;
pub mod history;
pub mod run;
pub mod verdict;
