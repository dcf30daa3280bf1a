//! What the sources are made of that generate packets as fast as they are taken.

/// The state of such a source.
#[derive(Default)]
pub(super) struct Generated {
    pub count: u64,
    /// Whether END_CALL was carried out.
    pub called: bool,
    /// The bytes of a packet.
    pub bytes: Vec<u8>,
    /// Where all packets end up, if that is in queues.
    pub queues: Vec<usize>,
}

/// Declares such a source, as `engine_node!` does. `params` and `handlers` are its own; `bytes` puts those of the next packet into
/// the state, `generates` says them where all packets have the same.
macro_rules! generator_node {
    (
        $(#[doc = $doc:expr])*
        $name:ident;
        $(example $example:expr;)*
        params { $($params:tt)* }
        handlers { $($handlers:tt)* }
        bytes $bytes:expr;
        generates $generates:expr;
    ) => {
        engine_node! {
            $(#[doc = $doc])*
            ///
            /// The output may be pushed or pulled. While all queues that the packets lead to are full, none is made.
            $name: "0/1", "h/a", Source, Process;
            $(example $example;)*
            params {
                $($params)*
                /// How many packets.
                pos limit: crate::common::limit::Limit = crate::common::limit::Limit::NONE => "-1",
                /// How many packets are pushed at a time.
                pos burst: u32 = 32,
                /// Whether it generates packets now.
                pos active: bool = true,
                /// Whether to end the run after the last packet.
                key stop: bool = false,
                /// A write handler to call after the last packet, and its value.
                key end_call: Option<crate::common::limit::HandlerCall> = None,
                /// Whether packets bear the time at which they were made.
                key timestamp: bool = true,
            }
            handlers {
                /// Number of packets generated so far.
                read count = |s, _| Ok(s.state.count.to_string()),
                /// Starts anew.
                write reset = |s, _, _| { (s.state.count, s.state.called) = (0, false); Ok(()) },
                $($handlers)*
                /// How many packets are pushed at a time.
                read burst = |s, _| Ok(s.burst.to_string()),
                /// Changes how many packets are pushed at a time.
                write burst = |s, value, _| {
                    s.burst = <u32 as weir_elements::FromArg>::from_arg(value)?;
                    Ok(())
                },
                /// Whether it generates packets.
                read active = |s, _| Ok(s.active.to_string()),
                /// Lets it generate packets, or not.
                write active = |s, value, _| { s.active = crate::common::limit::flag(value)?; Ok(()) },
                /// How many packets it generates; -1: no limit.
                read limit = |s, _| Ok(s.limit.0.map_or("-1".to_owned(), |l| l.to_string())),
                /// Changes how many packets it generates.
                write limit = |s, value, _| {
                    s.limit = <crate::common::limit::Limit as weir_elements::FromArg>::from_arg(value)?;
                    Ok(())
                },
            }
            state crate::sources::generator::Generated;
        }

        impl $name {
            fn make(&mut self, buffers: &mut weir_packet::Buffers, cx: &mut Cx<'_>) -> Option<Packet> {
                if !self.active || self.limit.reached(self.state.count) {
                    return None;
                }
                let bytes: fn(&mut $name, &mut Cx<'_>) = $bytes;
                bytes(self, cx);
                let mut packet = buffers.packet(&self.state.bytes).ok()?;
                if self.timestamp {
                    packet.timestamp = cx.now();
                }
                self.state.count += 1;
                if self.stop && self.limit.reached(self.state.count) {
                    cx.env().ask_stop();
                }
                Some(packet)
            }

            /// Whether END_CALL is to be carried out.
            fn calls(&self) -> bool {
                self.end_call.is_some() && self.limit.reached(self.state.count) && !self.state.called
            }

            /// Carries out END_CALL behind the last packet.
            fn end_calls(&mut self, cx: &mut Cx<'_>) {
                if self.calls()
                    && let Some(call) = &self.end_call
                {
                    self.state.called = true;
                    call.carry_out(cx);
                }
            }
        }

        impl Behavior for $name {
            fn place(&mut self, here: &Neighbours<'_>) -> Result<(), String> {
                self.state.queues = here.queues(0);
                Ok(())
            }

            fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
                self.end_calls(cx);
                self.make(&mut weir_packet::Buffers::take(1), cx)
            }

            fn gives(&self, _port: u32, _asks: &dyn Fn(u32) -> bool) -> Option<bool> {
                Some(self.active && !self.limit.reached(self.state.count))
            }

            fn fills(&self) -> &[usize] {
                &self.state.queues
            }

            fn generates(&self) -> Option<Vec<u8>> {
                let generates: fn(&$name) -> Option<Vec<u8>> = $generates;
                generates(self)
            }

            fn has_task(&self) -> bool {
                true
            }

            fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
                if !cx.output_is_push(0) {
                    return Ran::Idle;
                }
                self.end_calls(cx);
                let free = cx.space_in(&self.state.queues);
                let burst = (self.burst.max(1) as usize).min(free);
                if burst == 0 {
                    return Ran::Idle;
                }
                let mut buffers = weir_packet::Buffers::take(burst);
                for _ in 0..burst {
                    // The call comes when the packets have gone on.
                    let Some(packet) = self.make(&mut buffers, cx) else {
                        return if self.calls() { Ran::Busy } else { Ran::Idle };
                    };
                    cx.emit(0, packet);
                }
                Ran::Busy
            }

            fn adopt(&mut self, old: &mut dyn EngineNode) {
                if let Some(old) = old.as_any().downcast_mut::<$name>() {
                    (self.state.count, self.state.called) = (old.state.count, old.state.called);
                }
            }
        }
    };
}
pub(crate) use generator_node;
