//! Where a network says that its controller is (CHANGE paper, section 2.2.2): asked by DHCPINFORM (RFC 2131), with an option for private use (RFC 3942).

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use socket2::{Domain, Protocol, Socket, Type};

/// The option: the controller's URL, and behind a space the fingerprint of its certificate.
pub(crate) const OPTION: u8 = 224;
/// How often is asked, and how long an answer is waited for.
const TRIES: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(2);

/// Ports of servers and of clients.
const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// The fields before the options (RFC 2131, section 2), and what the options begin with.
const FIXED: usize = 236;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Options (RFC 2132).
const MESSAGE_TYPE: u8 = 53;
const WANTED: u8 = 55;
const END: u8 = 255;
const INFORM: u8 = 8;
const ACK: u8 = 5;

/// A message that asks for the option.
fn inform(number: u32, own: Ipv4Addr) -> Vec<u8> {
    let mut message = vec![0; FIXED];
    // A request, of Ethernet; addresses of six bytes, of which a server needs none here.
    message[..4].copy_from_slice(&[1, 1, 6, 0]);
    message[4..8].copy_from_slice(&number.to_be_bytes());
    message[12..16].copy_from_slice(&own.octets());
    message.extend(COOKIE);
    message.extend([MESSAGE_TYPE, 1, INFORM, WANTED, 1, OPTION, END]);
    message
}

/// The option's text in an answer to that message; `None` in all else.
fn answer(message: &[u8], number: u32) -> Option<Option<String>> {
    let is = message.first() == Some(&2)
        && message.get(4..8)? == number.to_be_bytes()
        && message.get(FIXED..FIXED + 4)? == COOKIE;
    let (mut rest, mut kind, mut text) = (message.get(FIXED + 4..)?, None, Vec::new());
    while let [code, more @ ..] = rest {
        match *code {
            0 => rest = more,
            END => break,
            code => {
                let (len, more) = more.split_first()?;
                let value = more.get(..usize::from(*len))?;
                match code {
                    MESSAGE_TYPE => kind = value.first().copied(),
                    // A long one is in parts (RFC 3396).
                    OPTION => text.extend(value),
                    _ => {}
                }
                rest = &more[value.len()..];
            }
        }
    }
    let text = String::from_utf8(text).ok().map(|t| t.trim_end_matches('\0').trim().to_owned());
    (is && kind == Some(ACK)).then(|| text.filter(|t| !t.is_empty()))
}

/// The controller's URL and its fingerprint, as the network at an interface says them.
pub(crate) fn controller(interface: &str) -> Result<(String, Option<String>)> {
    let at = || format!("DHCP at interface {interface}");
    let everybody = SocketAddrV4::new(Ipv4Addr::BROADCAST, SERVER);
    // Bound to no port: asked only for the address that it sends from.
    let other = socket(interface, 0).with_context(at)?;
    other.connect(everybody).with_context(at)?;
    let SocketAddr::V4(own) = other.local_addr().with_context(at)? else {
        bail!("interface {interface} has no IPv4 address")
    };
    let socket =
        socket(interface, CLIENT).with_context(|| format!("{}: UDP port {CLIENT} needs root", at()))?;
    socket.set_read_timeout(Some(PATIENCE / 4))?;
    let number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.subsec_nanos());
    for _ in 0..TRIES {
        socket.send_to(&inform(number, *own.ip()), everybody).with_context(at)?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let mut message = [0; 1500];
            let received = match socket.recv(&mut message) {
                Ok(n) => n,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(e) => return Err(e).with_context(at),
            };
            match answer(&message[..received], number) {
                None => {}
                Some(None) => bail!(
                    "the DHCP server at interface {interface} does not say where a controller is: its operator gives option {OPTION}"
                ),
                Some(Some(text)) => return Ok(parts(&text)),
            }
        }
    }
    bail!("no DHCP server answers at interface {interface}")
}

/// An URL, and perhaps a fingerprint behind it.
fn parts(text: &str) -> (String, Option<String>) {
    let mut words = text.split_whitespace().map(str::to_owned);
    (words.next().unwrap_or_default(), words.next())
}

/// A socket of an interface, at a port.
fn socket(interface: &str, port: u16) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.set_reuse_address(true)?;
    socket.set_broadcast(true)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer to the message of a number, with these options.
    fn of_server(number: u32, options: &[u8]) -> Vec<u8> {
        let mut message = inform(number, [10, 0, 0, 9].into());
        message[0] = 2;
        message.truncate(FIXED + 4);
        message.extend(options);
        message
    }

    #[test]
    fn an_answer_says_where_the_controller_is() {
        let text = b"https://a:1 sha256:00";
        let option = |bytes: &[u8]| [&[OPTION, bytes.len() as u8], bytes].concat();
        let good =
            [vec![MESSAGE_TYPE, 1, ACK, 0], option(&text[..5]), option(&text[5..]), vec![END]].concat();
        let said = answer(&of_server(7, &good), 7);
        assert_eq!(said, Some(Some("https://a:1 sha256:00".into())), "in two parts");
        assert_eq!(parts(&said.unwrap().unwrap()), ("https://a:1".into(), Some("sha256:00".into())));
        assert_eq!(answer(&of_server(7, &[MESSAGE_TYPE, 1, ACK, END]), 7), Some(None));
        // Of another question, of another kind, cut off.
        assert_eq!(answer(&of_server(8, &good), 7), None);
        assert_eq!(answer(&of_server(7, &[MESSAGE_TYPE, 1, 2, END]), 7), None);
        assert_eq!(answer(&inform(7, [10, 0, 0, 9].into()), 7), None);
        let whole = of_server(7, &good);
        (0..whole.len()).for_each(|n| drop(answer(&whole[..n], 7)));
        assert_eq!(answer(&of_server(7, &[MESSAGE_TYPE, 9, ACK]), 7), None);
    }
}
