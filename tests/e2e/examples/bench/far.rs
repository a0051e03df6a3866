//! What a forward leads to: a server that does nothing but answer. And a way to the hub that takes time.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fleet::Identity;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use super::Outcome;

/// First byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;
const ASK: u8 = b'?';
const DOWN: u8 = b'D';
const UP: u8 = b'U';
const DONE: u8 = b'!';

/// Answers on a loopback port: a TLS handshake with this identity, which a tunnel wants to see once, and the
/// questions of [`Connection`] in plain text, so that nobody's cipher is measured.
pub fn serve(port: u16, identity: &Identity) -> Outcome<()> {
    let failed = |error: &dyn std::fmt::Display| format!("the far end: {error}");
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(identity.chain_pem().as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem().as_bytes()).map_err(|error| failed(&error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain.unwrap_or_default(), key))
        .map_err(|error| failed(&error))?;
    let config = Arc::new(config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| failed(&error))?;
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let config = config.clone();
            thread::spawn(move || answer(connection, config));
        }
    });
    Ok(())
}

fn answer(mut connection: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut first = [0];
    if connection.peek(&mut first)? == 1 && first[0] == HANDSHAKE {
        let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
        tls.complete_io(&mut connection)?;
        tls.send_close_notify();
        tls.complete_io(&mut connection)?;
        return Ok(());
    }
    let mut question = [0; 9];
    loop {
        connection.read_exact(&mut question)?;
        let mut size = [0; 8];
        size.copy_from_slice(&question[1..]);
        let size = u64::from_be_bytes(size);
        match question[0] {
            DOWN => drop(io::copy(&mut io::repeat(DONE).take(size), &mut connection)?),
            UP => {
                io::copy(&mut (&mut connection).take(size), &mut io::sink())?;
                connection.write_all(&[DONE])?;
            }
            _ => connection.write_all(&[DONE])?,
        }
    }
}

/// A connection to the far end by way of a local port.
pub struct Connection(TcpStream);

impl Connection {
    /// Opens one; it stands when the far end has answered once.
    pub fn open(port: u16) -> Outcome<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut opened = Self(stream);
        opened.ask(ASK, 0)?;
        opened.receive(1)?;
        Ok(opened)
    }

    /// Fetches so many bytes.
    pub fn download(&mut self, size: u64) -> Outcome<()> {
        self.ask(DOWN, size)?;
        self.receive(size)
    }

    /// Sends so many bytes, until the far end has them all.
    pub fn upload(&mut self, size: u64) -> Outcome<()> {
        self.ask(UP, size)?;
        io::copy(&mut io::repeat(DONE).take(size), &mut self.0).map_err(|error| error.to_string())?;
        self.receive(1)
    }

    fn ask(&mut self, question: u8, size: u64) -> Outcome<()> {
        let mut bytes = [question; 9];
        bytes[1..].copy_from_slice(&size.to_be_bytes());
        self.0.write_all(&bytes).map_err(|error| error.to_string())
    }

    fn receive(&mut self, size: u64) -> Outcome<()> {
        let received = io::copy(&mut (&mut self.0).take(size), &mut io::sink());
        match received.map_err(|error| error.to_string())? {
            all if all == size => Ok(()),
            some => Err(format!("{some} of {size} bytes came")),
        }
    }
}

/// Starts a way to a server on which everything takes so long, each way. Its address.
pub fn delayed(to: SocketAddr, delay: Duration) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(to) else { continue };
            if let (Ok(from), Ok(back)) = (near.try_clone(), far.try_clone()) {
                carry(from, far, delay);
                carry(back, near, delay);
            }
        }
    });
    Ok(address)
}

/// Copies to the end, which it hands on.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let _ = to.set_nodelay(true);
    let (sender, queue) = mpsc::sync_channel::<(Instant, Vec<u8>)>(1024);
    thread::spawn(move || {
        for (due, bytes) in queue {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
}
