//! Accepting connections, and one connection from its handshake to its end.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection};
use h2::{Ping, PingPong, Reason};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout, Instant};

use crate::call::{serve, Caller};
use crate::front::Shared;
use crate::hop::Hop;
use crate::keeper::{Due, Keeper};
use crate::watched::{Activity, OpenCall, Watched};
use crate::windows::Windows;

/// What pieces that lie unread may cost beside their bytes: those after a call's only message, and
/// those of a moment. h2 counts 256 bytes for each, less its size, and ends the connection then.
const PIECES_BYTES: usize = 32 << 20;
/// Time to write a goodbye to who may not read it.
const GOODBYE: Duration = Duration::from_millis(100);
/// Before accepting again when there are no file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Accepts connections until `stop` says so.
pub(crate) async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            () = stopped(&mut stop) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, address)) => {
                // Who is not counted in is closed here, by being dropped.
                if let Some(open) = Open::new(&shared) {
                    tokio::spawn(converse(socket, address, open, stop.clone()));
                }
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender the port is gone.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A connection that is counted, until it is dropped.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Option<Self> {
        shared.counts.enter(shared.limits.max_connections).then(|| Self(shared.clone()))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counts.leave();
    }
}

fn written(address: SocketAddr) -> Arc<str> {
    let ip = address.ip().to_canonical();
    let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    format!("{family}:{}", SocketAddr::new(ip, address.port())).into()
}

async fn converse(
    socket: TcpStream,
    address: SocketAddr,
    open: Open,
    mut stop: watch::Receiver<bool>,
) {
    let shared = open.0.clone();
    // Small answers shall not wait for further ones.
    let _ = socket.set_nodelay(true);
    let activity = Activity::new();
    let watched = Watched::new(socket, activity.clone());
    let windows = Windows::of_requests(&shared.limits);
    let shaking = Builder::new()
        .initial_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .data_frame_budget(PIECES_BYTES)
        .max_concurrent_streams(shared.limits.max_concurrent_streams)
        .max_header_list_size(shared.limits.max_metadata_bytes)
        .max_send_buffer_size(shared.limits.write_buffer_bytes)
        .handshake::<_, Bytes>(watched);
    let shaken = tokio::select! {
        () = stopped(&mut stop) => return,
        shaken = timeout(shared.limits.keepalive_timeout, shaking) => shaken,
    };
    match shaken {
        Ok(Ok(connection)) => {
            let hop = Arc::new(Hop::new(&shared.limits));
            let caller = Caller { peer: written(address), hop };
            hold(connection, caller, &shared, activity, &mut stop).await;
        }
        // It speaks something else.
        Ok(Err(_)) => {}
        Err(_) => shared.counts.count_silent(),
    }
}

/// Serves a connection's calls until it ends, or a bound ends it.
async fn hold(
    mut connection: Connection<Watched, Bytes>,
    caller: Caller,
    shared: &Arc<Shared>,
    activity: Arc<Activity>,
    stop: &mut watch::Receiver<bool>,
) {
    let mut pings = connection.ping_pong();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut keeper = Keeper::new(&shared.limits, activity.opened(), number);
    let now = Instant::now().into_std();
    let mut look = std::pin::pin!(sleep_until(keeper.next(now, &activity).into()));
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let call = OpenCall::new(activity.clone());
                    let served = serve(shared.clone(), caller.clone(), request, respond);
                    tokio::spawn(async move {
                        served.await;
                        drop(call);
                    });
                }
                Some(Err(_)) | None => return,
            },
            () = &mut look => {
                let now = Instant::now().into_std();
                match keeper.due(now, &activity) {
                    Due::Nothing => {}
                    Due::Ping => ping(pings.as_mut()),
                    Due::Retire => connection.graceful_shutdown(),
                    Due::Silent => {
                        // Nobody is there to say goodbye to.
                        shared.counts.count_silent();
                        return;
                    }
                    Due::Idle => {
                        shared.counts.count_idle();
                        break;
                    }
                    Due::Overstayed => break,
                }
                look.as_mut().reset(keeper.next(now, &activity).into());
            }
            () = stopped(stop) => break,
        }
    }
    // Names the last call that was served, so that clients try later ones elsewhere. The gentler
    // goodbye waits for a ping's answer, which idle clients of grpc's core do not give.
    connection.abrupt_shutdown(Reason::NO_ERROR);
    let _ = timeout(GOODBYE, poll_fn(|context| connection.poll_closed(context))).await;
}

/// Sends a ping. Its answer is heard as anything else is; it is only put away here.
fn ping(pings: Option<&mut PingPong>) {
    if let Some(pings) = pings {
        let _ = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
        let _ = pings.send_ping(Ping::opaque());
    }
}
