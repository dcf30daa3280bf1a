//! Commands and replies of Redis (RESP3).

use redis_protocol::error::RedisProtocolErrorKind;
use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::types::OwnedFrame;

/// Sets a key of a hash to a value, or deletes it, if it has the value (or is not there) that is expected; else gives its value.
const COMPARE_AND_SET: &[u8] = b"\
local now = redis.call('HGET', KEYS[1], ARGV[1])
local want = ARGV[2] == '1' and ARGV[3] or false
if now ~= want then return {0, now} end
if ARGV[4] == '1' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[5]) else redis.call('HDEL', KEYS[1], ARGV[1]) end
return {1}";

/// Adds a command.
pub(crate) fn command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// Adds the command that compares and sets.
pub(crate) fn compare_and_set(
    out: &mut Vec<u8>,
    table: &[u8],
    key: &[u8],
    expected: Option<&[u8]>,
    new: Option<&[u8]>,
) {
    let flag = |value: Option<&[u8]>| if value.is_some() { b"1" } else { b"0" };
    let (expects, sets) = (flag(expected), flag(new));
    let (expected, new) = (expected.unwrap_or_default(), new.unwrap_or_default());
    command(out, &[b"EVAL", COMPARE_AND_SET, b"1", table, key, expects, expected, sets, new]);
}

/// A reply, as far as the library needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
    /// What Redis refuses a command with.
    Error(String),
    /// Anything else.
    Other,
}

/// Lists within lists that a reply may have. Ours have one; the decoder calls itself for each.
const DEEPEST: usize = 8;

/// Refuses a reply whose lists are nested too deeply, as far as it has come.
fn check_depth(input: &[u8]) -> Result<(), String> {
    let mut rest = input;
    // How many parts of each list are to come.
    let mut open: Vec<u64> = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let kind = rest[0];
        let count = std::str::from_utf8(&rest[1..end.max(1)]).ok().and_then(|text| text.parse().ok());
        rest = &rest[end + 2..];
        // Streams, attributes and the old form of null, which would have to be counted otherwise, are not asked for.
        let count: u64 = match (kind, count) {
            (b'*' | b'~' | b'>' | b'%' | b'$' | b'=' | b'!', None) | (b'|' | b';', _) => {
                return Err("a reply of a kind that was not asked for".into());
            }
            (_, count) => count.unwrap_or_default(),
        };
        match kind {
            b'*' | b'~' | b'>' => open.push(count),
            b'%' => open.push(count.saturating_mul(2)),
            b'$' | b'=' | b'!' => {
                rest = usize::try_from(count)
                    .ok()
                    .and_then(|n| rest.get(n.checked_add(2)?..))
                    .unwrap_or_default();
            }
            _ => {}
        }
        if open.len() > DEEPEST {
            return Err(format!("lists that are nested more than {DEEPEST} times"));
        }
        if !matches!(kind, b'*' | b'~' | b'>' | b'%')
            && let Some(left) = open.last_mut()
        {
            *left = left.saturating_sub(1);
        }
        while open.last() == Some(&0) {
            open.pop();
            if let Some(left) = open.last_mut() {
                *left = left.saturating_sub(1);
            }
        }
        if open.is_empty() {
            break;
        }
    }
    Ok(())
}

/// The reply that `input` begins with, and how many bytes it has; `None` if it is not complete.
pub(crate) fn reply(input: &[u8]) -> Result<Option<(Reply, usize)>, String> {
    check_depth(input)?;
    match decode(input) {
        Ok(frame) => Ok(frame.map(|(frame, length)| (value(frame), length))),
        Err(error) if matches!(error.kind(), RedisProtocolErrorKind::BufferTooSmall(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn value(frame: OwnedFrame) -> Reply {
    match frame {
        OwnedFrame::Null => Reply::Nil,
        OwnedFrame::Number { data, .. } => Reply::Number(data),
        OwnedFrame::BlobString { data, .. } | OwnedFrame::SimpleString { data, .. } => Reply::Bytes(data),
        OwnedFrame::Array { data, .. } => Reply::List(data.into_iter().map(value).collect()),
        OwnedFrame::SimpleError { data, .. } => Reply::Error(data),
        OwnedFrame::BlobError { data, .. } => Reply::Error(String::from_utf8_lossy(&data).into_owned()),
        _ => Reply::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_any_bytes() {
        let mut out = Vec::new();
        command(&mut out, &[b"HSET", b"", b"\r\n\0"]);
        assert_eq!(out, b"*3\r\n$4\r\nHSET\r\n$0\r\n\r\n$3\r\n\r\n\0\r\n");
    }

    #[test]
    fn replies_are_read_one_by_one_and_not_before_they_are_complete() {
        let input = b"$3\r\na\r\n\r\n_\r\n:-7\r\n*2\r\n:0\r\n_\r\n-ERR no\r\n";
        let mut replies = Vec::new();
        let mut at = 0;
        for end in 0..=input.len() {
            while let Some((reply, length)) = reply(&input[at..end]).expect("it is RESP3") {
                replies.push(reply);
                at += length;
            }
        }
        let expected = [
            Reply::Bytes(b"a\r\n".to_vec()),
            Reply::Nil,
            Reply::Number(-7),
            Reply::List(vec![Reply::Number(0), Reply::Nil]),
            Reply::Error("ERR no".into()),
        ];
        assert_eq!(replies, expected);
        assert!(reply(b"HTTP/1.1 400 Bad Request\r\n").is_err());
    }

    #[test]
    fn lists_within_lists_have_an_end() {
        assert!(reply(&b"*1\r\n".repeat(7)).is_ok_and(|r| r.is_none()));
        // Also when each is the last part of another, or within a map, and when what is within is done.
        for deep in [&b"*1\r\n"[..], b"*2\r\n$4\r\n*1\r\n\r\n", b"%1\r\n+a\r\n", b"*3\r\n*0\r\n*1\r\n:1\r\n"]
        {
            assert!(reply(&deep.repeat(100_000)).is_err(), "{}", deep.escape_ascii());
        }
        // What a count of parts would miss.
        for deep in [&b"*1\r\n|1\r\n+a\r\n+b\r\n"[..], b"*2\r\n$-1\r\n", b"*?\r\n"] {
            assert!(reply(&deep.repeat(100_000)).is_err(), "{}", deep.escape_ascii());
        }
        let wide = [&b"*1000\r\n"[..], &b"*1\r\n:1\r\n".repeat(1000)].concat();
        assert!(reply(&wide).is_ok_and(|r| r.is_some()));
    }
}
