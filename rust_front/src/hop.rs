//! Calls of many requests go on to a server behind, one connection to it for each client's.

use std::future::{poll_fn, Future as _};
use std::path::Path;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::answer::{Answer, Gone};
use crate::limits::Limits;
use crate::status::{Status, UNAVAILABLE};
use crate::windows::Windows;

/// Names the caller to the server behind, in the metadata of a call.
pub const PEER: HeaderName = HeaderName::from_static("headway-peer");
/// A client's connection to the server behind, made with its first such call.
pub(crate) struct Hop {
    windows: Windows,
    open: Mutex<Option<SendRequest<Bytes>>>,
}

impl Hop {
    /// Not connected yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { windows: Windows::of_answers(limits), open: Mutex::default() }
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
            // It is ours, and the windows bound what it may send in pieces of any size.
            .data_frame_budget(usize::MAX)
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
async fn on_and_wait(body: RecvStream, send: SendStream<Bytes>) {
    let mut onward = Onward { body, send, held: BytesMut::new(), over: false };
    while let Some(step) = poll_fn(|context| onward.poll_step(context)).await {
        let passed = match step {
            Step::Came(data) => onward.take(data),
            Step::Room(room) => onward.pass(room),
            Step::Over => {
                onward.over = true;
                Ok(())
            }
            Step::Left => return,
        };
        if passed.is_err() {
            break;
        }
    }
    // All is passed on; or it takes no more, and has an answer on the way.
    std::future::pending::<()>().await;
}

enum Step {
    /// From the client.
    Came(Bytes),
    /// The server behind takes so many bytes.
    Room(usize),
    /// The client has sent all.
    Over,
    /// The client is gone.
    Left,
}

/// Requests on their way to the server behind.
///
/// They are read off the client's connection as they come, since pieces that lie there cost more
/// than their bytes, and too many of them end it. The client's window opens as they are passed on.
struct Onward {
    body: RecvStream,
    send: SendStream<Bytes>,
    held: BytesMut,
    over: bool,
}

impl Onward {
    /// What can be done next; None once all is passed on, or the server behind takes no more.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Option<Step>> {
        if !self.held.is_empty() {
            if self.send.poll_reset(context).is_ready() {
                return Poll::Ready(None);
            }
            let room = self.room_for(self.held.len());
            if room > 0 {
                return Poll::Ready(Some(Step::Room(room)));
            }
            match self.send.poll_capacity(context) {
                Poll::Ready(Some(Ok(room))) => return Poll::Ready(Some(Step::Room(room))),
                Poll::Ready(_) => return Poll::Ready(None),
                Poll::Pending => {}
            }
        } else if self.over {
            // gRPC's clients send no trailers.
            let _ = self.send.send_data(Bytes::new(), true);
            return Poll::Ready(None);
        }
        if self.over {
            return Poll::Pending;
        }
        self.body.poll_data(context).map(|data| match data {
            Some(Ok(data)) => Some(Step::Came(data)),
            Some(Err(_)) => Some(Step::Left),
            None => Some(Step::Over),
        })
    }

    fn room_for(&mut self, size: usize) -> usize {
        self.send.reserve_capacity(size);
        self.send.capacity()
    }

    fn take(&mut self, data: Bytes) -> Result<(), h2::Error> {
        if data.is_empty() {
            return Ok(());
        }
        if self.held.is_empty() && self.room_for(data.len()) >= data.len() {
            return self.send_on(data);
        }
        self.held.extend_from_slice(&data);
        Ok(())
    }

    fn pass(&mut self, room: usize) -> Result<(), h2::Error> {
        let part = self.held.split_to(room.min(self.held.len())).freeze();
        if self.held.is_empty() {
            // Gives back what a burst took.
            self.held = BytesMut::new();
        }
        self.send_on(part)
    }

    fn send_on(&mut self, data: Bytes) -> Result<(), h2::Error> {
        let size = data.len();
        self.send.send_data(data, false)?;
        let _ = self.body.flow_control().release_capacity(size);
        Ok(())
    }
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
