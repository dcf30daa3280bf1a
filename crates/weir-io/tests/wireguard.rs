//! Ports inside of WireGuard's packets.

mod common;

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Inside, Namespace, link, receive_n};
use weir_io::wireguard::{Options, WireGuardPort, identity};
use weir_io::{Port, PortError};
use weir_net::{WireGuardKey, build};
use weir_packet::{Packet, entry};

const A: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const PORT: u16 = 51_820;

/// Two hosts on one link.
fn hosts() -> (Namespace, Namespace) {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    link((&a, "eth0"), (&b, "eth0"));
    a.ip(&format!("addr add {A}/24 dev eth0"));
    b.ip(&format!("addr add {B}/24 dev eth0"));
    (a, b)
}

fn open(
    ns: &Namespace,
    (local, remote): (Ipv4Addr, Ipv4Addr),
    key_file: &Path,
    peer: WireGuardKey,
) -> Result<WireGuardPort, PortError> {
    let (local, remote) = (SocketAddrV4::new(local, PORT), SocketAddrV4::new(remote, PORT));
    ns.netns()
        .run(|| WireGuardPort::open(&Options { local, remote, peer, key_file: key_file.into() }))
        .unwrap()
}

fn packets(from: Ipv4Addr, to: Ipv4Addr, n: usize) -> Vec<Packet> {
    let packet = |i: usize| build::udp4((from, 1), (to, 2), &vec![7; i % 1300])[14..].to_vec();
    (0..n).map(|i| Packet::from_bytes(&packet(i)).unwrap()).collect()
}

#[test]
fn packets_wait_for_the_handshake_and_nobody_else_can_send_any() {
    let (left, right) = hosts();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (key_a, key_b) = (identity(&file("a")).unwrap(), identity(&file("b")).unwrap());
    assert_eq!(identity(&file("a")).unwrap(), key_a, "a key stays");
    assert_eq!(fs::metadata(file("a")).unwrap().permissions().mode() & 0o777, 0o600);
    let mut a = open(&left, (A, B), &file("a"), key_b).unwrap();
    let mut b = open(&right, (B, A), &file("b"), key_a).unwrap();

    // Until the handshake has ended some wait, in order; what is too much is counted.
    let mut batch = packets(A, B, 300);
    let sent: Vec<Vec<u8>> = batch.iter().map(|p| p.bytes().to_vec()).collect();
    assert_eq!(a.send(&mut batch).unwrap(), 256);
    assert!(batch.is_empty());
    assert_eq!(a.lost().tx.down, 44);
    let mut got = Vec::new();
    for _ in 0..1000 {
        b.receive(&mut got, 64).unwrap();
        assert_eq!(a.receive(&mut Vec::new(), 64).unwrap(), 0);
        if got.len() == 256 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(got.len(), 256);
    for (got, sent) in got.iter().zip(&sent) {
        assert_eq!(got.bytes(), sent);
        assert_eq!(entry::TUNNEL.admits(got), Ok(()));
    }
    b.send(&mut packets(B, A, 20)).unwrap();
    receive_n(&mut a, 20, |_| true);

    // Addresses that are not those of the ends come not through, nor does what is longer than the route takes.
    b.send(&mut packets([10, 9, 0, 7].into(), A, 1)).unwrap();
    b.send(&mut packets(B, [10, 9, 0, 7].into(), 1)).unwrap();
    let long = build::udp4((B, 1), (A, 2), &[0; 1450])[14..].to_vec();
    b.send(&mut vec![Packet::from_bytes(&long).unwrap()]).unwrap();
    assert_eq!(b.lost().tx.too_long, 1);
    b.send(&mut packets(B, A, 1)).unwrap();
    receive_n(&mut a, 1, |_| true);
    assert_eq!(a.stats().rx_malformed, 2);

    // Whatever others send from the same address and port is counted.
    drop(b);
    let junk = right.netns().run(|| UdpSocket::bind((B, PORT)).unwrap()).unwrap();
    junk.connect((A, PORT)).unwrap();
    for i in 0_u8..200 {
        let mut bytes: Vec<u8> = (0..i).map(|n| n.wrapping_mul(i)).collect();
        // Types of messages are 1 to 4, with three bytes of 0 behind.
        bytes.splice(..4.min(bytes.len()), [i % 5, 0, 0, 0]);
        junk.send(&bytes).unwrap();
    }
    let mut nothing = Vec::new();
    for _ in 0..50 {
        a.receive(&mut nothing, 64).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(nothing.len(), 0);
    assert!(a.stats().rx_malformed > 100, "{}", a.stats().rx_malformed);
}

#[test]
fn what_is_missing_is_said() {
    let (left, _right) = hosts();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let key = identity(&file).unwrap();
    assert!(matches!(open(&left, (B, A), &file, key), Err(PortError::NoAddress { .. })));
    let missing = open(&left, (A, B), &folder.path().join("none"), key).unwrap_err();
    assert!(missing.to_string().contains("cannot read the private key"), "{missing}");
    fs::write(&file, "no key").unwrap();
    let e = identity(&file).unwrap_err().to_string();
    assert!(e.contains("32 bytes in base64"), "{e}");
    let holder = left.netns().run(|| UdpSocket::bind((A, PORT)).unwrap()).unwrap();
    fs::remove_file(&file).unwrap();
    identity(&file).unwrap();
    assert!(matches!(open(&left, (A, B), &file, key), Err(PortError::Busy { .. })));
    drop(holder);
}
