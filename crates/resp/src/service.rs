//! Connections in threads of their own, bounded in number.

use crate::serving::serve;
use crate::session::Session;
use crate::shared::{Connection, Secret, Shared};
use hanare_dict::Store;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Options of a service.
pub struct Options {
    /// The secret, where clients have to prove themselves.
    pub secret: Option<Secret>,
    /// Most connections at once. Each has a thread.
    pub connections: usize,
}

/// A store that clients of Redis reach.
pub struct Service(Arc<Shared>);

impl Service {
    /// A service without connections.
    pub fn new(store: Store, options: Options) -> Service {
        Service(Arc::new(Shared::new(store, options.secret, options.connections.max(1))))
    }

    /// Serves a client in a thread, until it leaves. Where there are too many, it is told so.
    pub fn serve(&self, mut connection: impl Connection + 'static) {
        let id = self.0.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let counted = Counted(self.0.clone());
        if self.0.connected.fetch_add(1, Ordering::Relaxed) >= self.0.most {
            refuse(&mut connection);
            return;
        }
        let work = move || {
            // A client that breaks off, or is too slow, is gone; nobody is there to tell.
            let _ = serve(&mut Session::new(&counted.0, id, &mut connection));
        };
        // Without a thread the connection closes.
        let _ = std::thread::Builder::new().name(format!("client {id}")).stack_size(512 << 10).spawn(work);
    }
}

fn refuse(connection: &mut impl Connection) {
    // A client that does not read is not waited for.
    let _ = connection.set_write_timeout(Some(Duration::from_millis(10)));
    let _ = connection.write_all(b"-ERR max number of clients reached\r\n");
}

/// A connection that counts until it ends.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}
