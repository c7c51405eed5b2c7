//! Terminals of this machine.
