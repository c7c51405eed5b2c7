//! How much each bench does.

/// The amounts of a run. Samples are counted per contender, without the one that warms up.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Starts of a process.
    pub starts: usize,
    /// Samples of a bulk transfer.
    pub transfers: usize,
    /// The bytes of one transfer through a pipe.
    pub pipe_bytes: u64,
    /// The bytes of one transfer through a terminal.
    pub terminal_bytes: u64,
    /// The files of a sweep.
    pub files: usize,
    /// Samples of a sweep.
    pub sweeps: usize,
    /// Samples of one call on a file or a feed.
    pub calls: usize,
    /// Requests through a proxy, of each size that is measured by its latency.
    pub requests: usize,
    /// Requests through a proxy of the size that is measured by its throughput.
    pub bulk_requests: usize,
    /// The bytes of a bulk request.
    pub bulk_bytes: usize,
}

impl Scale {
    /// What numbers are published of: some minutes on two cores.
    pub const FULL: Self = Self {
        starts: 500,
        transfers: 15,
        pipe_bytes: 1 << 30,
        terminal_bytes: 100 * 1000 * 1000,
        files: 10_000,
        sweeps: 15,
        calls: 300,
        requests: 2_000,
        bulk_requests: 15,
        bulk_bytes: 8 * 1024 * 1024,
    };

    /// Enough to see that every bench still runs, in seconds. Its numbers mean nothing.
    pub const QUICK: Self = Self {
        starts: 2,
        transfers: 1,
        pipe_bytes: 1 << 20,
        terminal_bytes: 100_000,
        files: 50,
        sweeps: 1,
        calls: 2,
        requests: 5,
        bulk_requests: 1,
        bulk_bytes: 256 * 1024,
    };
}
