//! One call, from its headers to its end.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::RecvStream;
use http::{HeaderMap, Method, Request};
use tokio::time::{timeout_at, Instant};

use crate::answer::{Answer, Gone};
use crate::front::Shared;
use crate::hop::Hop;
use crate::message::{read_one, Encoding, Missing};
use crate::status::{timeout, Status, INTERNAL, UNIMPLEMENTED};
use crate::table::{Event, Piece};

/// Who calls, and what the call's connection has.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) peer: Arc<str>,
    pub(crate) hop: Arc<Hop>,
}

/// A call's method, by what its host has to do for it.
#[derive(Clone, Copy, Debug)]
struct Found {
    method: u32,
    streams: bool,
}

/// Serves a call to its end; the client's leaving ends it at any point.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    caller: Caller,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) {
    let began = Instant::now();
    let deadline = timeout(request.headers()).map(|left| began + left);
    let mut answer = Answer::new(respond);
    let Some((method, streams)) = shared.method(request.uri().path()) else {
        match shared.hop_path() {
            // The server behind keeps deadlines itself.
            Some(path) => {
                caller.hop.forward(path, &caller.peer, request, answer).await;
            }
            None => answer.end(Status::new(UNIMPLEMENTED, "Method not found!")),
        }
        return;
    };
    let found = Found { method, streams };
    let served = served(&shared, &caller, found, request, &mut answer, began, deadline);
    let whole = match deadline {
        None => Ok(served.await),
        Some(deadline) => timeout_at(deadline, served).await,
    };
    match whole {
        Ok(Ok(()) | Err(Gone)) => {}
        Err(_) => answer.cut(Status::deadline_exceeded()),
    }
}

/// Until the answer is complete; the client's leaving is `Gone`.
async fn served(
    shared: &Arc<Shared>,
    caller: &Caller,
    found: Found,
    request: Request<RecvStream>,
    answer: &mut Answer,
    began: Instant,
    deadline: Option<Instant>,
) -> Result<(), Gone> {
    let (parts, mut body) = request.into_parts();
    let encoding = match accepted(&parts.method, &parts.headers) {
        Ok(encoding) => encoding,
        Err(status) => {
            answer.end(*status);
            return Ok(());
        }
    };
    let payload = match message(shared, &mut body, encoding, answer, began).await? {
        Ok(payload) => payload,
        Err(status) => {
            answer.end(status);
            return Ok(());
        }
    };
    let call = |id| Event::Call {
        id,
        method: found.method,
        payload,
        headers: parts.headers,
        peer: caller.peer.clone(),
        deadline: deadline.map(Instant::into_std),
    };
    if found.streams {
        many(shared, call, answer).await
    } else {
        one(shared, call, answer).await
    }
}

fn accepted(method: &Method, headers: &HeaderMap) -> Result<Encoding, Box<Status>> {
    if method != Method::POST {
        let odd = format!("gRPC calls are POST, not {method}");
        return Err(Box::new(Status::new(INTERNAL, odd)));
    }
    Encoding::of(headers)
}

/// The call's message, or what it is refused with.
async fn message(
    shared: &Shared,
    body: &mut RecvStream,
    encoding: Encoding,
    answer: &mut Answer,
    began: Instant,
) -> Result<Result<Bytes, Status>, Gone> {
    let mut reading = pin!(read_one(body, shared.limits.max_message_bytes, encoding));
    // Nearly always it is there already, and no timer is needed.
    let ready = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
    let read = match ready {
        Poll::Ready(read) => read,
        Poll::Pending => {
            let by = began + shared.limits.max_message_time;
            if let Ok(read) = timeout_at(by, unless_gone(answer, reading)).await {
                read?
            } else {
                shared.counts.count_overdue();
                return Ok(Err(shared.refusals.overdue.clone()));
            }
        }
    };
    match read {
        Ok(payload) => Ok(Ok(payload)),
        Err(Missing::Gone) => Err(Gone),
        Err(Missing::Ended) => Ok(Err(shared.refusals.no_message.clone())),
        Err(Missing::Refused(status)) => Ok(Err(*status)),
    }
}

async fn one(
    shared: &Arc<Shared>,
    call: impl FnOnce(u64) -> Event,
    answer: &mut Answer,
) -> Result<(), Gone> {
    let Some((entered, reply)) = shared.table.enter_one() else {
        answer.end(Status::shutting_down());
        return Ok(());
    };
    shared.table.tell(call(entered.id()));
    let Ok(reply) = unless_gone(answer, reply).await? else {
        answer.end(Status::shutting_down());
        return Ok(());
    };
    if let Some(message) = reply.message {
        answer.begin(reply.initial)?;
        answer.send(message).await?;
    } else if !reply.initial.is_empty() {
        answer.begin(reply.initial)?;
    }
    answer.end(reply.end);
    Ok(())
}

async fn many(
    shared: &Arc<Shared>,
    call: impl FnOnce(u64) -> Event,
    answer: &mut Answer,
) -> Result<(), Gone> {
    let Some((entered, mut pieces)) = shared.table.enter_many() else {
        answer.end(Status::shutting_down());
        return Ok(());
    };
    shared.table.tell(call(entered.id()));
    loop {
        match unless_gone(answer, pieces.next()).await? {
            Some(Piece::Initial(initial)) => {
                answer.begin(initial)?;
            }
            Some(Piece::Message(message)) => answer.send(message).await?,
            Some(Piece::End(status)) => {
                answer.end(status);
                return Ok(());
            }
            None => {
                answer.end(Status::shutting_down());
                return Ok(());
            }
        }
    }
}

/// What `wanted` gives, unless the client leaves before.
async fn unless_gone<T>(answer: &mut Answer, wanted: impl Future<Output = T>) -> Result<T, Gone> {
    let mut wanted = pin!(wanted);
    poll_fn(|context| {
        if answer.poll_gone(context).is_ready() {
            return Poll::Ready(Err(Gone));
        }
        wanted.as_mut().poll(context).map(Ok)
    })
    .await
}
