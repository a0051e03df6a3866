//! An HTTP proxy that takes CONNECT, over plain TCP, and counts.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Starts one that leads to `to` whatever it is asked for. Its address, and how often it was used.
///
/// # Panics
/// Without a loopback port.
pub fn start(to: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback connection");
    let address = listener.local_addr().expect("a loopback connection");
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            counter.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut client = client;
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                if !head.starts_with(b"CONNECT ") {
                    return;
                }
                let mut server = TcpStream::connect(to).expect("a loopback connection");
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("a loopback connection");
                let (mut from, mut back) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut back));
                let _ = std::io::copy(&mut server, &mut client);
            });
        }
    });
    (address, count)
}
