//! A port: bound, then started, then closed.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::connection::accept;
use crate::limits::{Counts, Limits, Refusals};
use crate::status::Status;
use crate::table::{Event, Sent, Table};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Time for the goodbyes of a port that closes, and for its threads to end.
const CLOSING: Duration = Duration::from_millis(300);

/// A method that the host answers.
#[derive(Clone, Debug)]
pub struct Method {
    /// `/package.Service/Method`.
    pub path: String,
    /// Whether it has many answers.
    pub streams: bool,
}

/// What all connections of a port share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) refusals: Refusals,
    pub(crate) counts: Counts,
    pub(crate) table: Arc<Table>,
    methods: OnceLock<HashMap<String, (u32, bool)>>,
    hop: OnceLock<PathBuf>,
}

impl Shared {
    pub(crate) fn method(&self, path: &str) -> Option<(u32, bool)> {
        self.methods.get()?.get(path).copied()
    }

    pub(crate) fn hop_path(&self) -> Option<&Path> {
        self.hop.get().map(PathBuf::as_path)
    }
}

/// A port with its threads.
#[derive(Debug)]
pub struct Front {
    shared: Arc<Shared>,
    events: Mutex<Receiver<Event>>,
    port: u16,
    stop: watch::Sender<bool>,
    listeners: Mutex<Vec<TcpListener>>,
    runtime: Mutex<Option<Runtime>>,
}

impl Front {
    /// Binds `address`, host:port, on all that the host resolves to; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// The address is no address, taken or not permitted, or threads cannot be had.
    pub fn bind(
        address: &str,
        threads: usize,
        limits: Limits,
        refusals: Refusals,
    ) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("headway-front")
            .enable_all()
            .build()?;
        let listeners = {
            let _entered = runtime.enter();
            listen(address)?
        };
        let port = listeners
            .first()
            .map_or(Ok(0), |listener| listener.local_addr().map(|local| local.port()))?;
        let (table, events) = Table::new();
        Ok(Self {
            shared: Arc::new(Shared {
                limits,
                refusals,
                counts: Counts::default(),
                table,
                methods: OnceLock::new(),
                hop: OnceLock::new(),
            }),
            events: Mutex::new(events),
            port,
            stop: watch::Sender::new(false),
            listeners: Mutex::new(listeners),
            runtime: Mutex::new(Some(runtime)),
        })
    }

    /// The port that was bound.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Accepts connections from here on. Calls of `methods` become events; others go on to the
    /// server that listens on the socket `hop`, or are not implemented without one.
    pub fn start(&self, methods: Vec<Method>, hop: Option<PathBuf>) {
        let numbered = methods.into_iter().zip(0..);
        let known = numbered.map(|(method, number)| (method.path, (number, method.streams)));
        if self.shared.methods.set(known.collect()).is_err() {
            return;
        }
        if let Some(path) = hop {
            let _ = self.shared.hop.set(path);
        }
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners =
            std::mem::take(&mut *self.listeners.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(runtime) = &*runtime {
            for listener in listeners {
                let shared = self.shared.clone();
                runtime.spawn(accept(listener, shared, self.stop.subscribe()));
            }
        }
    }

    /// Waits for events; at most `most`, at least one. Empty once the port is closed.
    pub fn next(&self, most: usize) -> Vec<Event> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let first = match events.recv() {
            Ok(Event::Closed) | Err(RecvError) => return Vec::new(),
            Ok(event) => event,
        };
        let mut taken = vec![first];
        while taken.len() < most {
            match events.try_recv() {
                Ok(Event::Closed) => {
                    // Told again next time.
                    self.shared.table.tell(Event::Closed);
                    break;
                }
                Ok(event) => taken.push(event),
                Err(_) => break,
            }
        }
        taken
    }

    /// Ends a call: with a framed message where it has one; false if it is over.
    pub fn end(&self, id: u64, message: Option<Bytes>, initial: HeaderMap, end: Status) -> bool {
        self.shared.table.end(id, message, initial, end)
    }

    /// Hands on a stream's initial metadata, once; false if the call is over.
    pub fn begin(&self, id: u64, initial: HeaderMap) -> bool {
        self.shared.table.begin(id, initial)
    }

    /// Hands on a stream's framed message, made only if there is room.
    pub fn send(&self, id: u64, message: impl FnOnce() -> Bytes) -> Sent {
        self.shared.table.send(id, message)
    }

    /// Ends all calls and connections, and the threads. Blocks for a moment; repeats do nothing.
    pub fn close(&self) {
        self.shared.table.close();
        // Ports that were never started give theirs back here.
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let _ = self.stop.send(true);
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.block_on(async {
                let end = tokio::time::Instant::now() + CLOSING;
                while self.shared.counts.open() > 0 && tokio::time::Instant::now() < end {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            });
            runtime.shutdown_timeout(CLOSING);
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.close();
    }
}

fn listen(address: &str) -> io::Result<Vec<TcpListener>> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    for mut resolved in address.to_socket_addrs()? {
        if let Some(first) = listeners.first() {
            resolved.set_port(first.local_addr()?.port());
        }
        match listen_on(resolved) {
            Ok(listener) => listeners.push(listener),
            // A machine without one of the families still serves on the other.
            Err(error) if listeners.is_empty() => return Err(error),
            Err(_) => {}
        }
    }
    if listeners.is_empty() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address"));
    }
    Ok(listeners)
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // For ports that were in use a moment ago; a port that is listened on stays taken.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
