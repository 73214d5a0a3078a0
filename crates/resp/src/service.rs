//! A store that clients of Redis reach: connections by few threads, bounded in number.

use crate::connection::Connection;
use crate::shared::{Secret, Shared};
use crate::watch::Watch;
use hanare_dict::Store;
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Options of a service.
pub struct Options {
    /// The secret, where clients have to prove themselves.
    pub secret: Option<Secret>,
    /// Most connections at once.
    pub connections: usize,
    /// Threads that serve them, besides those of commands that last.
    pub threads: usize,
}

/// A store that clients of Redis reach. Its threads last until the process ends.
pub struct Service {
    shared: Arc<Shared>,
    watch: Arc<Watch>,
}

impl Service {
    /// Starts a service without connections. **Errors**: no thread could be started.
    pub fn start(store: Store, options: Options) -> io::Result<Service> {
        let shared = Arc::new(Shared::new(store, options.secret, options.connections.max(1)));
        Ok(Service { shared, watch: Watch::start(options.threads)? })
    }

    /// Serves a client at a stream's socket, until it leaves. Where there are too many, it is told so.
    pub fn serve(&self, socket: impl Into<OwnedFd>) {
        let socket = socket.into();
        let id = self.shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        if self.shared.connected.load(Ordering::Relaxed) >= self.shared.most {
            // A client that does not read is not waited for.
            let _ = send(&socket, b"-ERR max number of clients reached\r\n", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            return;
        }
        self.shared.connected.fetch_add(1, Ordering::Relaxed);
        let connection = Box::new(Connection::new(socket, self.shared.clone(), id));
        if let Err(error) = self.watch.idlest().add(connection) {
            tracing::warn!("client {id} is not served: {error}");
        }
    }
}
