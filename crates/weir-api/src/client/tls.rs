//! Connections with TLS, whose server is known by what the caller says. `ureq`'s own TLS takes roots only, and no pin.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Puts TLS on connections of `https` addresses.
pub struct Tls(pub Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl<In: Transport> Connector<In> for Tls {
    type Out = Either<In, Stream>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        let Some(below) = chained.filter(|_| details.needs_tls()) else {
            return Err(Error::Tls("only https is spoken here"));
        };
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| Error::Tls("the host has no name"))?;
        let mut session = ClientConnection::new(self.0.clone(), name).map_err(std::io::Error::other)?;
        let mut below =
            TransportAdapter::new(Box::new(below) as Box<dyn Transport>, details.current_time.clone());
        below.set_timeout(details.timeout);
        session.complete_io(&mut below)?;
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        let stream = StreamOwned { conn: session, sock: below };
        Ok(Some(Either::B(Stream { buffers: LazyBuffers::new(input, output), stream })))
    }
}

/// A connection with TLS.
pub struct Stream {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

impl Transport for Stream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        use std::io::Write;
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream.write_all(output)?;
        Ok(self.stream.flush()?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        use std::io::Read;
        self.stream.sock.set_timeout(timeout);
        let read = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// What was wrong with TLS, if that is why a request failed.
pub fn fault(error: &Error) -> Option<&rustls::Error> {
    let Error::Io(e) = error else { return None };
    e.get_ref()?.downcast_ref()
}
