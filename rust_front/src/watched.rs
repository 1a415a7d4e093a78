//! A connection's socket, and when it was last heard.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What a connection has been doing, as far as its bounds need it.
#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    heard_ms: AtomicU64,
    calls: AtomicUsize,
    last_call_ms: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            opened: Instant::now(),
            heard_ms: AtomicU64::new(0),
            calls: AtomicUsize::new(0),
            last_call_ms: AtomicU64::new(0),
        })
    }

    pub(crate) fn opened(&self) -> Instant {
        self.opened
    }

    /// When bytes last came.
    pub(crate) fn heard(&self) -> Instant {
        self.opened + Duration::from_millis(self.heard_ms.load(Ordering::Relaxed))
    }

    /// When its last call ended, or it was opened; `None` while it has calls.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let ended = Duration::from_millis(self.last_call_ms.load(Ordering::Relaxed));
        (self.calls.load(Ordering::Acquire) == 0).then(|| self.opened + ended)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Counts a call of a connection in, and out when it is dropped.
pub(crate) struct OpenCall(Arc<Activity>);

impl OpenCall {
    pub(crate) fn new(activity: Arc<Activity>) -> Self {
        activity.calls.fetch_add(1, Ordering::AcqRel);
        Self(activity)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.last_call_ms.store(self.0.now_ms(), Ordering::Relaxed);
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A socket that notes when it was read.
pub(crate) struct Watched {
    socket: TcpStream,
    activity: Arc<Activity>,
}

impl Watched {
    pub(crate) fn new(socket: TcpStream, activity: Arc<Activity>) -> Self {
        Self { socket, activity }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        if buffer.filled().len() > before {
            let now_ms = self.activity.now_ms();
            self.activity.heard_ms.store(now_ms, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
