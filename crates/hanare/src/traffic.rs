//! What a client has sent and received.

/// Messages and bytes between a client and nodes, heads included; loads and stores of mapped memory are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages sent.
    pub messages_sent: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, more: Traffic) {
        self.messages_sent += more.messages_sent;
        self.bytes_sent += more.bytes_sent;
        self.messages_received += more.messages_received;
        self.bytes_received += more.bytes_received;
    }
}
