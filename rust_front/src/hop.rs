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
use crate::status::{Status, UNAVAILABLE};

/// Names the caller to the server behind, in the metadata of a call.
pub const PEER: HeaderName = HeaderName::from_static("headway-peer");
/// Answers of one stream that may wait here for a reader that is behind.
const WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// A client's connection to the server behind, made with its first such call.
#[derive(Default)]
pub(crate) struct Hop {
    open: Mutex<Option<SendRequest<Bytes>>>,
}

impl Hop {
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
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
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
