//! Asking the API server: requests, tokens of service accounts, kubeconfigs.

use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::blocking::Client;
use serde_json::{Value, json};

use super::ControlPlane;

/// What the API server answered.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The object; a string where it was not JSON.
    pub body: Value,
}

pub(super) fn build(ca_pem: &str) -> Result<Client, String> {
    // Somebody else in this process may have installed it before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ca = reqwest::Certificate::from_pem(ca_pem.as_bytes()).map_err(|error| error.to_string())?;
    Client::builder()
        .tls_certs_only([ca])
        .no_proxy()
        .timeout(Duration::from_secs(60))
        .build()
        .map_err(|error| error.to_string())
}

impl ControlPlane {
    /// Asks as the administrator; an answer of 400 or more is an error. PATCH is a merge patch.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let answer = self.call(&self.admin_token(), method, path, body)?;
        if answer.status < 400 {
            return Ok(answer.body);
        }
        let message = answer.body["message"].as_str().map_or_else(|| answer.body.to_string(), str::to_owned);
        Err(format!("{}: {method} {path}: {} {message}", self.name, answer.status))
    }

    /// Asks with any token, say one of a service account; each answer is good.
    pub fn call(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, String> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.send(token, method, path, kind, body.map(Value::to_string))
    }

    pub(super) fn send(
        &self,
        token: &str,
        method: &str,
        path: &str,
        kind: &str,
        body: Option<String>,
    ) -> Result<Answer, String> {
        let failed = |error: reqwest::Error| format!("{}: {method} {path}: {error}", self.name);
        let method: Method = method.parse().map_err(|_| format!("not a method: {method}"))?;
        let mut request = self.client.request(method.clone(), self.server() + path).bearer_auth(token);
        if let Some(body) = body {
            request = request.header("content-type", kind).body(body);
        }
        let answer = request.send().map_err(failed)?;
        let status = answer.status().as_u16();
        let text = answer.text().map_err(failed)?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Answer { status, body })
    }

    /// Creates the object; one that is there already stays as it is. The answer is what is there.
    pub fn create(&self, collection: &str, object: &Value) -> Result<Value, String> {
        match self.request("POST", collection, Some(object)) {
            Err(error) if error.contains(": 409 ") => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                self.request("GET", &format!("{collection}/{name}"), None)
            }
            answer => answer,
        }
    }

    /// Creates a namespace unless it is there.
    pub fn create_namespace(&self, name: &str) -> Result<(), String> {
        self.create("/api/v1/namespaces", &json!({ "metadata": { "name": name } })).map(|_| ())
    }

    /// A token of a service account out of the real TokenRequest API; 600 seconds at least.
    pub fn create_token(&self, namespace: &str, account: &str, seconds: u32) -> Result<String, String> {
        let answer = self.request_token(namespace, account, seconds)?;
        Ok(answer["status"]["token"].as_str().unwrap_or_default().to_owned())
    }

    pub(super) fn request_token(
        &self,
        namespace: &str,
        account: &str,
        seconds: u32,
    ) -> Result<Value, String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        self.request("POST", &path, Some(&json!({ "spec": { "expirationSeconds": seconds } })))
    }

    /// Waits until a token is refused: the API server remembers a good one for ten seconds.
    pub fn wait_until_refused(&self, token: &str) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.call(token, "GET", "/api", None)?.status != 401 {
            if Instant::now() > deadline {
                return Err(format!("{}: the token is still good", self.name));
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// A kubeconfig with one context, named as the control plane, and a token.
    pub fn kubeconfig(&self, token: &str) -> String {
        self.kubeconfig_with(&format!("token: {token}"))
    }

    /// The same with a client certificate and its key, PEM.
    pub fn kubeconfig_with_certificate(&self, certificate: &str, key: &str) -> String {
        self.kubeconfig_with(&format!(
            "client-certificate-data: {}\n    client-key-data: {}",
            STANDARD.encode(certificate),
            STANDARD.encode(key)
        ))
    }

    fn kubeconfig_with(&self, user: &str) -> String {
        let (name, server, ca) = (self.name(), self.server(), STANDARD.encode(self.ca_pem()));
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {name}-user
  user:
    {user}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}-user
current-context: {name}
"
        )
    }
}
