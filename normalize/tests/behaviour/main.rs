//! What the crate promises, through its public items alone.

#![cfg(test)]

mod answers;
mod lowering;
mod order;
mod raising;
mod registrations;
mod rendering;
mod requests;
mod tokens;
