//! The native transport's port, as an asyncio server drives it.
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use headway_front::{from_pairs, pairs, Event, Limits, Method, Refusals, Sent, Status, Value};
use http::HeaderMap;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use super::lock::Lock;

const EVENT_CALL: u8 = 0;
const EVENT_CANCEL: u8 = 1;
const INTERNAL: u32 = 13;

#[derive(FromPyObject)]
enum Text {
    Text(PyBackedStr),
    Bytes(PyBackedBytes),
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

type Metadata = Vec<(PyBackedStr, Text)>;
type Told = (u32, String, Metadata);

/// A port of the native transport.
#[pyclass(frozen, module = "headway._core")]
pub struct Front {
    front: headway_front::Front,
    // Until the port is started.
    methods: Lock<Vec<Method>>,
    hop: Lock<Option<PathBuf>>,
}

#[pymethods]
impl Front {
    #[new]
    #[pyo3(signature = (*, address, threads, max_connections, max_concurrent_streams,
        max_metadata_bytes, max_message_bytes, max_message_ns, write_buffer_bytes, keepalive_ns,
        keepalive_timeout_ns, max_idle_ns, max_age_ns, max_age_grace_ns, overdue, no_message))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn new(
        address: &str,
        threads: usize,
        max_connections: usize,
        max_concurrent_streams: u32,
        max_metadata_bytes: u32,
        max_message_bytes: usize,
        max_message_ns: u64,
        write_buffer_bytes: usize,
        keepalive_ns: u64,
        keepalive_timeout_ns: u64,
        max_idle_ns: u64,
        max_age_ns: Option<u64>,
        max_age_grace_ns: u64,
        overdue: Told,
        no_message: Told,
    ) -> PyResult<Self> {
        let limits = Limits {
            max_connections,
            max_concurrent_streams,
            max_metadata_bytes,
            max_message_bytes,
            max_message_time: Duration::from_nanos(max_message_ns),
            write_buffer_bytes,
            keepalive: Duration::from_nanos(keepalive_ns),
            keepalive_timeout: Duration::from_nanos(keepalive_timeout_ns),
            max_idle: Duration::from_nanos(max_idle_ns),
            max_age: max_age_ns.map(Duration::from_nanos),
            max_age_grace: Duration::from_nanos(max_age_grace_ns),
        };
        let refusals = Refusals { overdue: status(overdue)?, no_message: status(no_message)? };
        let front = headway_front::Front::bind(address, threads, limits, refusals)
            .map_err(|error| PyOSError::new_err(format!("{address}: {error}")))?;
        Ok(Self { front, methods: Lock::default(), hop: Lock::default() })
    }

    #[getter]
    fn bound_port(&self) -> u16 {
        self.front.port()
    }

    fn add_methods(&self, methods: Vec<(String, bool)>) {
        let added = methods.into_iter().map(|(path, streams)| Method { path, streams });
        self.methods.hold().extend(added);
    }

    fn set_fallback(&self, path: PathBuf) {
        *self.hop.hold() = Some(path);
    }

    fn start(&self) {
        let methods = std::mem::take(&mut *self.methods.hold());
        self.front.start(methods, self.hop.hold().take());
    }

    fn recv_batch_details<'py>(
        &self,
        py: Python<'py>,
        max_events: usize,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let events = py.detach(|| self.front.next(max_events));
        if events.is_empty() {
            return Ok(None);
        }
        let now = Instant::now();
        let made: Vec<_> =
            events.into_iter().map(|event| told(py, event, now)).collect::<PyResult<_>>()?;
        PyList::new(py, made).map(Some)
    }

    #[pyo3(signature = (call_id, payload, initial_metadata=None, trailing_metadata=None))]
    fn respond(
        &self,
        call_id: u64,
        payload: &[u8],
        initial_metadata: Option<Metadata>,
        trailing_metadata: Option<Metadata>,
    ) -> PyResult<bool> {
        let initial = self.headers(call_id, initial_metadata, unsendable)?;
        let trailers = self.headers(call_id, trailing_metadata, unsendable)?;
        let end = Status { trailers, ..Status::default() };
        Ok(self.front.end(call_id, Some(framed(payload)), initial, end))
    }

    #[pyo3(signature = (call_id, code, message, trailing_metadata=None))]
    fn fail(
        &self,
        call_id: u64,
        code: u32,
        message: String,
        trailing_metadata: Option<Metadata>,
    ) -> PyResult<bool> {
        let bare = || Status::new(code, message.clone());
        let trailers = self.headers(call_id, trailing_metadata, bare)?;
        let end = Status { code, message, trailers };
        Ok(self.front.end(call_id, None, HeaderMap::new(), end))
    }

    fn stream_try_send(&self, call_id: u64, payload: &[u8]) -> u8 {
        match self.front.send(call_id, || framed(payload)) {
            Sent::Taken => 0,
            Sent::Full => 1,
            Sent::Over => 2,
        }
    }

    fn stream_send_initial_metadata(&self, call_id: u64, metadata: Metadata) -> PyResult<bool> {
        let initial = self.headers(call_id, Some(metadata), unsendable)?;
        Ok(self.front.begin(call_id, initial))
    }

    #[pyo3(signature = (call_id, trailing_metadata=None))]
    fn stream_end(&self, call_id: u64, trailing_metadata: Option<Metadata>) -> PyResult<bool> {
        let trailers = self.headers(call_id, trailing_metadata, unsendable)?;
        let end = Status { trailers, ..Status::default() };
        Ok(self.front.end(call_id, None, HeaderMap::new(), end))
    }

    fn counts(&self) -> (usize, u64, u64, u64, u64) {
        let counts = self.front.counts();
        (counts.open(), counts.refused(), counts.silent(), counts.idle(), counts.overdue())
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.front.close());
    }
}

impl Front {
    /// Headers of metadata; where there can be none of it, the call ends as `otherwise` says.
    fn headers(
        &self,
        call_id: u64,
        metadata: Option<Metadata>,
        otherwise: impl FnOnce() -> Status,
    ) -> PyResult<HeaderMap> {
        let Some(metadata) = metadata.filter(|metadata| !metadata.is_empty()) else {
            return Ok(HeaderMap::new());
        };
        headers(&metadata).inspect_err(|_| {
            self.front.end(call_id, None, HeaderMap::new(), otherwise());
        })
    }
}

fn unsendable() -> Status {
    Status::new(INTERNAL, "the answer's metadata cannot be sent")
}

fn headers(metadata: &Metadata) -> PyResult<HeaderMap> {
    from_pairs(metadata.iter().map(|(name, value)| (&**name, value.as_ref())))
        .map_err(PyValueError::new_err)
}

fn status((code, message, metadata): Told) -> PyResult<Status> {
    Ok(Status { code, message, trailers: headers(&metadata)? })
}

fn framed(payload: &[u8]) -> Bytes {
    let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut data = Vec::with_capacity(payload.len() + 5);
    data.push(0);
    data.extend_from_slice(&size.to_be_bytes());
    data.extend_from_slice(payload);
    data.into()
}

fn told(py: Python<'_>, event: Event, now: Instant) -> PyResult<Bound<'_, PyTuple>> {
    let none = py.None().into_bound(py);
    match event {
        Event::Call { id, method, payload, headers, peer, deadline } => {
            let left = deadline.map(|at| at.saturating_duration_since(now).as_secs_f64());
            let metadata: Vec<_> =
                pairs(&headers).map(|pair| entry(py, pair)).collect::<PyResult<_>>()?;
            let details = (PyTuple::new(py, metadata)?, PyString::new(py, &peer), left);
            let payload = PyBytes::new(py, &payload);
            (EVENT_CALL, id, method, payload, none, details).into_pyobject(py)
        }
        Event::Cancelled { id } => {
            (EVENT_CANCEL, id, 0, none.clone(), none.clone(), none).into_pyobject(py)
        }
        // The front keeps it to itself.
        Event::Closed => Ok(PyTuple::empty(py)),
    }
}

fn entry<'py>(py: Python<'py>, (name, value): (&str, Value)) -> PyResult<Bound<'py, PyTuple>> {
    match value {
        Value::Text(text) => (name, text).into_pyobject(py),
        Value::Bytes(bytes) => (name, PyBytes::new(py, &bytes)).into_pyobject(py),
    }
}
