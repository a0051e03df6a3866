//! Answers as the API gives them: JSON, `Status` errors, bodies that stream or break off.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Sleep, sleep};

use crate::key::Key;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An answer before it is a body: the status, the content type and all of the bytes.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(status: u16, value: &Value) -> Self {
        Self { status, content_type: "application/json", bytes: value.to_string().into_bytes() }
    }

    pub(crate) fn text(status: u16, text: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", bytes: text.as_bytes().to_vec() }
    }

    /// A failure as the API says it.
    pub(crate) fn failure(status: u16, reason: &str, message: &str) -> Self {
        Self::json(status, &failure(status, reason, message))
    }

    /// 404 or 409 for one object.
    pub(crate) fn about(status: u16, reason: &str, key: &Key, what: &str) -> Self {
        let message = format!("{} \"{}\" {what}", key.qualified(), key.name);
        let mut value = failure(status, reason, &message);
        value["details"] = json!({"name": key.name, "group": key.group, "kind": key.resource});
        Self::json(status, &value)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(request: &crate::Request) -> Self {
        let (key, user) = (&request.key, &request.user);
        if !request.is_resource() {
            let message =
                format!("forbidden: User \"{user}\" cannot {} path \"{}\"", request.verb, request.path);
            return Self::failure(403, "Forbidden", &message);
        }
        let named = if key.name.is_empty() { String::new() } else { format!(" \"{}\"", key.name) };
        let scope = match key.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let subresource = match request.subresource.as_str() {
            "" => String::new(),
            subresource => format!("/{subresource}"),
        };
        let message = format!(
            "{}{named} is forbidden: User \"{user}\" cannot {} resource \"{}{subresource}\" in API group \"{}\" {scope}",
            key.qualified(),
            request.verb,
            key.resource,
            key.group
        );
        let mut value = failure(403, "Forbidden", &message);
        value["details"] = json!({"name": key.name, "group": key.group, "kind": key.resource});
        Self::json(403, &value)
    }

    /// The response; large answers are compressed for those who ask, as a real server does.
    pub(crate) fn into_response(mut self, gzip: bool) -> Response<Body> {
        let compress = gzip && self.bytes.len() > 128 * 1024;
        if compress {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            self.bytes = encoder.write_all(&self.bytes).and_then(|()| encoder.finish()).unwrap_or_default();
        }
        let mut response =
            Response::new(Full::new(Bytes::from(self.bytes)).map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if compress {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    /// The response whose body breaks off half way.
    pub(crate) fn into_truncated(mut self) -> Response<Body> {
        let length = self.bytes.len();
        self.bytes.truncate(length / 2);
        let mut response = Response::new(Broken::new(self.bytes.into(), length).boxed_unsync());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        response
    }
}

pub(crate) fn failure(status: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": status})
}

/// A body that gives half of what it promised, and fails once that half is surely on its way.
struct Broken {
    half: Option<Bytes>,
    length: usize,
    flushed: Pin<Box<Sleep>>,
}

impl Broken {
    fn new(half: Bytes, length: usize) -> Self {
        Self { half: Some(half), length, flushed: Box::pin(sleep(Duration::from_millis(30))) }
    }
}

impl HttpBody for Broken {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.half.take() {
            Some(half) => Poll::Ready(Some(Ok(Frame::data(half)))),
            None => self.flushed.as_mut().poll(cx).map(|()| Some(Err(io::Error::other("broken on purpose")))),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.length as u64)
    }
}

/// A body that ends when its sender does.
pub(crate) struct Channel(pub(crate) Receiver<Bytes>);

impl HttpBody for Channel {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
    }
}
