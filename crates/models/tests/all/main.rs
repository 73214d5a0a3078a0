//! The models beside the product: what `hanare` asks them, what they predict of its messages, and where its features are marked.

mod asked;
mod marks;
mod messages;
mod product;
