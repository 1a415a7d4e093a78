//! Writing answers within the flow control of HTTP/2.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};

use crate::message::ENCODINGS;
use crate::status::Status;

/// The client reset the call, or its connection is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

/// The writing side of a call.
pub(crate) struct Answer {
    respond: SendResponse<Bytes>,
    stream: Option<SendStream<Bytes>>,
    /// Within a message, whose rest waits for the reader.
    within: bool,
}

fn head(initial: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    *headers = initial;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

impl Answer {
    pub(crate) fn new(respond: SendResponse<Bytes>) -> Self {
        Self { respond, stream: None, within: false }
    }

    /// Sends the headers, unless they were sent before.
    pub(crate) fn begin(&mut self, initial: HeaderMap) -> Result<&mut SendStream<Bytes>, Gone> {
        match &mut self.stream {
            Some(stream) => Ok(stream),
            empty => {
                let mut response = head(initial);
                response
                    .headers_mut()
                    .insert("grpc-accept-encoding", HeaderValue::from_static(ENCODINGS));
                let begun = self.respond.send_response(response, false);
                Ok(empty.insert(begun.map_err(|_| Gone)?))
            }
        }
    }

    /// Sends the headers of somebody else's answer, as they are.
    pub(crate) fn begin_as(&mut self, response: Response<()>, over: bool) -> Result<(), Gone> {
        let begun = self.respond.send_response(response, over);
        self.stream = Some(begun.map_err(|_| Gone)?);
        Ok(())
    }

    /// Sends a framed message, piece by piece as the reader makes room.
    pub(crate) async fn send(&mut self, data: Bytes) -> Result<(), Gone> {
        self.begin(HeaderMap::new())?;
        self.within = true;
        if let Some(stream) = &mut self.stream {
            send_all(stream, data).await?;
        }
        self.within = false;
        Ok(())
    }

    /// Ends the call.
    pub(crate) fn end(&mut self, status: Status) {
        let trailers = status.into_trailers();
        // Whom it does not reach is gone.
        let _ = match &mut self.stream {
            Some(stream) => stream.send_trailers(trailers),
            None => self.respond.send_response(head(trailers), true).map(|_stream| ()),
        };
    }

    /// Sends trailers of somebody else, or only the end.
    pub(crate) fn end_as(&mut self, trailers: Option<HeaderMap>) {
        if let Some(stream) = &mut self.stream {
            let _ = match trailers {
                Some(trailers) => stream.send_trailers(trailers),
                None => stream.send_data(Bytes::new(), true),
            };
        }
    }

    /// Ends a call at any point; one whose message is stuck behind its reader cannot be told why.
    pub(crate) fn cut(&mut self, status: Status) {
        match &mut self.stream {
            Some(stream) if self.within => stream.send_reset(Reason::CANCEL),
            _ => self.end(status),
        }
    }

    /// Ready once the client has reset the call or left.
    pub(crate) fn poll_gone(&mut self, context: &mut std::task::Context<'_>) -> Poll<()> {
        let polled = match &mut self.stream {
            Some(stream) => stream.poll_reset(context),
            None => self.respond.poll_reset(context),
        };
        polled.map(|_| ())
    }
}

/// Sends all of `data`, waiting for room.
async fn send_all(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), Gone> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let mut room = stream.capacity();
        if room == 0 {
            room = poll_fn(|context| match stream.poll_reset(context) {
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => stream.poll_capacity(context),
            })
            .await
            .and_then(Result::ok)
            .ok_or(Gone)?;
        }
        let part = data.split_to(room.min(data.len()));
        stream.send_data(part, false).map_err(|_| Gone)?;
    }
    Ok(())
}
