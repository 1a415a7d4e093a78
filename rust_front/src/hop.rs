//! Calls of many requests go on to a server behind, one connection to it for each client's.

use std::future::{poll_fn, Future as _};
use std::path::Path;
use std::task::Poll;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::answer::{send_all, Answer, Gone};
use crate::limits::Limits;
use crate::status::{Status, UNAVAILABLE};

/// Names the caller to the server behind, in the metadata of a call.
pub const PEER: HeaderName = HeaderName::from_static("headway-peer");
/// The least window: an answer would pass in ever more pieces, and with none not at all.
const LEAST_WINDOW_BYTES: u32 = 1 << 10;
/// What a connection begins with, whatever is asked for.
const LEAST_CONNECTION_WINDOW_BYTES: u32 = (1 << 16) - 1;
/// HTTP/2's largest.
const LARGEST_WINDOW_BYTES: u32 = (1 << 31) - 1;

/// Answers that may wait here for readers that are behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Windows {
    /// Of one stream.
    stream: u32,
    /// Of all. As large as they are together, so that those who are not read keep none from others.
    connection: u32,
}

impl Windows {
    fn of(limits: &Limits) -> Self {
        let largest = LARGEST_WINDOW_BYTES;
        let wanted = u32::try_from(limits.write_buffer_bytes).unwrap_or(largest);
        let stream = wanted.clamp(LEAST_WINDOW_BYTES, largest);
        let together = stream.saturating_mul(limits.max_concurrent_streams);
        Self {
            stream,
            connection: together.clamp(LEAST_CONNECTION_WINDOW_BYTES.max(stream), largest),
        }
    }
}

/// A client's connection to the server behind, made with its first such call.
pub(crate) struct Hop {
    windows: Windows,
    open: Mutex<Option<SendRequest<Bytes>>>,
}

impl Hop {
    /// Not connected yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { windows: Windows::of(limits), open: Mutex::default() }
    }

    /// Hands a call on, and its answers back, until either side ends it.
    pub(crate) async fn forward(
        &self,
        path: &Path,
        peer: &str,
        request: Request<RecvStream>,
        mut answer: Answer,
    ) {
        let (head, body) = request.into_parts();
        let begun = match passed_on(head, peer) {
            None => Err("the call's path cannot be passed on".into()),
            Some(head) => self.begin(path, head).await,
        };
        let (response, send) = match begun {
            Ok(begun) => begun,
            Err(why) => {
                answer.end(Status::new(UNAVAILABLE, format!("calls of many requests: {why}")));
                return;
            }
        };
        tokio::select! {
            // Either ends the call: whatever is dropped then resets its side.
            () = back(response, &mut answer) => {}
            () = on_and_wait(body, send) => {}
        }
    }

    async fn begin(
        &self,
        path: &Path,
        head: Request<()>,
    ) -> Result<(h2::client::ResponseFuture, SendStream<Bytes>), String> {
        let sender = self.sender(path).await.map_err(|error| error.to_string())?;
        let mut ready = sender.ready().await.map_err(|error| error.to_string())?;
        ready.send_request(head, false).map_err(|error| error.to_string())
    }

    async fn sender(&self, path: &Path) -> std::io::Result<SendRequest<Bytes>> {
        let mut open = self.open.lock().await;
        if let Some(sender) = open.clone() {
            // One whose connection has ended is never ready.
            if sender.clone().ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let socket = UnixStream::connect(path).await?;
        let (sender, connection) = Builder::new()
            .initial_window_size(self.windows.stream)
            .initial_connection_window_size(self.windows.connection)
            .enable_push(false)
            .handshake(socket)
            .await
            .map_err(std::io::Error::other)?;
        tokio::spawn(async move {
            // Its calls are told by themselves.
            let _ = connection.await;
        });
        *open = Some(sender.clone());
        Ok(sender)
    }
}

fn passed_on(head: http::request::Parts, peer: &str) -> Option<Request<()>> {
    let path = head.uri.path_and_query()?.clone();
    let uri =
        Uri::builder().scheme("http").authority("localhost").path_and_query(path).build().ok()?;
    let mut request = Request::new(());
    *request.method_mut() = head.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = head.headers;
    // Replaces what a client may have written there.
    request.headers_mut().insert(PEER, HeaderValue::from_str(peer).ok()?);
    Some(request)
}

/// Passes requests on as the server behind takes them; ends only with the client.
async fn on_and_wait(mut body: RecvStream, mut send: SendStream<Bytes>) {
    while let Some(data) = poll_fn(|context| body.poll_data(context)).await {
        let Ok(data) = data else { return };
        let size = data.len();
        if send_all(&mut send, data).await.is_err() {
            // It takes no more, and has an answer on the way.
            return std::future::pending().await;
        }
        let _ = body.flow_control().release_capacity(size);
    }
    // gRPC's clients send no trailers.
    let _ = send.send_data(Bytes::new(), true);
    std::future::pending::<()>().await;
}

/// Passes the answer back as the client takes it.
async fn back(response: h2::client::ResponseFuture, answer: &mut Answer) {
    let mut response = Box::pin(response);
    let head = poll_fn(|context| {
        if answer.poll_gone(context).is_ready() {
            return Poll::Ready(None);
        }
        response.as_mut().poll(context).map(Some)
    })
    .await;
    match head {
        None => {}
        Some(Ok(head)) => {
            if let Err(Failed::Behind(why)) = pass_back(head, answer).await {
                answer.cut(Status::new(UNAVAILABLE, why));
            }
        }
        Some(Err(error)) => answer.end(Status::new(UNAVAILABLE, error.to_string())),
    }
}

enum Failed {
    Client,
    Behind(String),
}

impl From<Gone> for Failed {
    fn from(_: Gone) -> Self {
        Self::Client
    }
}

async fn pass_back(head: Response<RecvStream>, answer: &mut Answer) -> Result<(), Failed> {
    let (parts, mut body) = head.into_parts();
    let over = body.is_end_stream();
    answer.begin_as(Response::from_parts(parts, ()), over)?;
    if over {
        return Ok(());
    }
    loop {
        let next = poll_fn(|context| {
            if answer.poll_gone(context).is_ready() {
                return Poll::Ready(Err(Failed::Client));
            }
            body.poll_data(context).map(Ok)
        })
        .await?;
        let Some(data) = next else { break };
        let data = data.map_err(|error| Failed::Behind(error.to_string()))?;
        let size = data.len();
        answer.send(data).await?;
        let _ = body.flow_control().release_capacity(size);
    }
    let trailers: Option<HeaderMap> = poll_fn(|context| body.poll_trailers(context))
        .await
        .map_err(|error| Failed::Behind(error.to_string()))?;
    answer.end_as(trailers);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::tests::limits;

    fn windows(write_buffer_bytes: usize, max_concurrent_streams: u32) -> (u32, u32) {
        let windows =
            Windows::of(&Limits { max_concurrent_streams, write_buffer_bytes, ..limits() });
        (windows.stream, windows.connection)
    }

    #[test]
    fn windows_follow_the_limits_within_what_http_2_has() {
        let largest = (1 << 31) - 1;
        assert_eq!(windows(65_536, 4096), (65_536, 256 << 20));
        assert_eq!(windows(1024, 4096), (1024, 4 << 20));
        assert_eq!(windows(0, 1), (1024, 65_535));
        assert_eq!(windows(64 << 20, 4096), (64 << 20, largest));
        assert_eq!(windows(usize::MAX, 1), (largest, largest));
        assert_eq!(windows(65_536, 0), (65_536, 65_536));
    }
}
