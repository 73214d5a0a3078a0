//! The models, a folder each. Removing one means removing its folder and its two lines here.
use crate::experiment::Paper;

pub mod dimmnet2_drivers;
pub mod dimmnet3;
pub mod euphoria;
pub mod rhinet_fagus;
pub mod virtual_queue;

/// All models, in the order of the command's help.
pub fn papers() -> &'static [&'static Paper] {
    static PAPERS: [&Paper; 5] =
        [&dimmnet3::PAPER, &rhinet_fagus::PAPER, &dimmnet2_drivers::PAPER, &euphoria::PAPER, &virtual_queue::PAPER];
    &PAPERS
}

/// A model by the paper's id.
pub fn find(id: &str) -> Option<&'static Paper> {
    papers().iter().copied().find(|paper| paper.id == id)
}
