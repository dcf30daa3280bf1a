//! Meters: rates above which packets are dropped or become easier to drop (section 5.7).

use weir_openflow::connection::Time;
use weir_openflow::error::meter_mod_failed;
use weir_openflow::meter::{MeterBand, MeterMod};
use weir_openflow::numbers::MeterFlags;
use weir_openflow::stats::{Counter, MeterConfig, MeterStats};
use weir_openflow::{ErrorCode, MeterId};

/// Most bands of a meter.
pub const MAX_BANDS: usize = 8;
/// A meter without a burst size takes as much at once as its rate gives in this part of a second.
const BURST: u64 = 10;

/// A meter.
#[derive(Debug)]
pub struct Meter {
    flags: MeterFlags,
    bands: Vec<Band>,
    created: Time,
    packets: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Band {
    said: MeterBand,
    /// Bits or packets, times a thousand, a second.
    rate: u64,
    /// The most that waits to be taken, in the same units.
    burst: i64,
    /// What may be taken. It is below 0 after a packet that was larger than what was left: so rates are right for packets of any size.
    left: i64,
    filled: Time,
    packets: u64,
    bytes: u64,
}

/// The verdict of a meter on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is below all rates.
    Pass,
    /// It goes no further.
    Drop,
    /// It becomes so much easier to drop.
    Remark(u8),
}

impl Meter {
    /// A meter as a controller says it.
    ///
    /// # Errors
    /// Flags that exclude each other, or bands that cannot be.
    pub fn new(m: &MeterMod, now: Time) -> Result<Meter, ErrorCode> {
        let (packets, kilobits) = (m.flags.has(MeterFlags::PKTPS), m.flags.has(MeterFlags::KBPS));
        if packets && kilobits {
            return Err(meter_mod_failed::BAD_FLAGS);
        }
        if m.bands.len() > MAX_BANDS {
            return Err(meter_mod_failed::OUT_OF_BANDS);
        }
        let unit: u64 = if packets { 1000 } else { 1_000_000 };
        let band = |said: &MeterBand| {
            let (rate, burst) = match said {
                MeterBand::Drop(b) => (b.rate, b.burst_size),
                MeterBand::DscpRemark(b) => (b.rate, b.burst_size),
                MeterBand::Experimenter(_) => return Err(meter_mod_failed::BAD_BAND),
            };
            if rate == 0 {
                return Err(meter_mod_failed::BAD_RATE);
            }
            let rate = u64::from(rate) * unit;
            let said_burst =
                m.flags.has(MeterFlags::BURST).then_some(u64::from(burst) * unit).filter(|b| *b > 0);
            let burst = said_burst.unwrap_or(rate / BURST).max(1) as i64;
            Ok(Band { said: said.clone(), rate, burst, left: burst, filled: now, packets: 0, bytes: 0 })
        };
        let bands = m.bands.iter().map(band).collect::<Result<_, _>>()?;
        Ok(Meter { flags: m.flags, bands, created: now, packets: 0, bytes: 0 })
    }

    /// Takes what counts on from the meter that this replaces.
    #[must_use]
    pub fn in_place_of(mut self, old: &Meter) -> Meter {
        (self.created, self.packets, self.bytes) = (old.created, old.packets, old.bytes);
        self
    }

    /// Measures a packet, which is `count` on the wire.
    pub fn measure(&mut self, bytes: usize, count: u64, now: Time) -> Verdict {
        self.packets += count;
        self.bytes += bytes as u64;
        let cost = if self.flags.has(MeterFlags::PKTPS) { count * 1000 } else { bytes as u64 * 8000 };
        let mut above: Option<&mut Band> = None;
        for band in &mut self.bands {
            let passed = now.saturating_sub(band.filled).as_nanos().min(1 << 40);
            let more = passed * u128::from(band.rate) / 1_000_000_000;
            // What is less than a unit is not lost.
            if more > 0 {
                band.left = band.left.saturating_add(more as i64).min(band.burst);
                band.filled = now;
            }
            if band.left > 0 {
                band.left -= cost as i64;
            } else if above.as_ref().is_none_or(|a| a.rate < band.rate) {
                above = Some(band);
            }
        }
        let Some(band) = above else { return Verdict::Pass };
        band.packets += count;
        band.bytes += bytes as u64;
        match &band.said {
            MeterBand::DscpRemark(b) => Verdict::Remark(b.prec_level),
            MeterBand::Drop(_) | MeterBand::Experimenter(_) => Verdict::Drop,
        }
    }

    /// What it did; `flows` use it.
    pub fn stats(&self, id: u32, flows: usize, now: Time) -> MeterStats {
        let age = now.saturating_sub(self.created);
        MeterStats {
            meter: MeterId(id),
            flow_count: flows as u32,
            packet_in_count: self.packets,
            byte_in_count: self.bytes,
            duration_sec: age.as_secs() as u32,
            duration_nsec: age.subsec_nanos(),
            bands: self
                .bands
                .iter()
                .map(|b| Counter { packet_count: b.packets, byte_count: b.bytes })
                .collect(),
        }
    }

    /// What it is.
    pub fn config(&self, id: u32) -> MeterConfig {
        let bands = self.bands.iter().map(|b| b.said.clone()).collect();
        MeterConfig { flags: self.flags, meter: MeterId(id), bands }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_openflow::numbers::MeterModCommand;

    fn meter(flags: MeterFlags, bands: Vec<MeterBand>) -> Result<Meter, ErrorCode> {
        let m = MeterMod { command: MeterModCommand::Add, flags, meter: MeterId(1), bands };
        Meter::new(&m, Time::ZERO)
    }

    fn drop_above(rate: u32, burst_size: u32) -> MeterBand {
        MeterBand::Drop(weir_openflow::meter::Band { rate, burst_size })
    }

    #[test]
    fn as_much_passes_as_the_rate_says_whatever_the_packets_are() {
        for (size, count, flags, per_second) in [
            (1500, 1, MeterFlags::KBPS, 1_000_000 / 8),
            (60_000, 40, MeterFlags::KBPS, 1_000_000 / 8),
            (100, 1, MeterFlags::PKTPS, 1000 * 100),
        ] {
            let mut m = meter(flags, vec![drop_above(1000, 0)]).unwrap();
            let mut passed = 0;
            // Four times as much as may, for ten seconds.
            let step = Time::from_secs_f64(size as f64 / (4 * per_second) as f64);
            let mut now = Time::ZERO;
            while now < Time::from_secs(10) {
                now += step;
                passed += if m.measure(size, count, now) == Verdict::Pass { size } else { 0 };
            }
            let right = per_second * 10;
            assert!(passed.abs_diff(right) < right / 20 + size, "{size}: {passed} of {right}");
            let stats = m.stats(1, 0, now);
            assert_eq!(stats.byte_in_count - stats.bands[0].byte_count, passed as u64);
        }
    }

    #[test]
    fn the_highest_rate_that_is_exceeded_decides() {
        let remark = |rate| {
            MeterBand::DscpRemark(weir_openflow::meter::RemarkBand { rate, burst_size: 1, prec_level: 1 })
        };
        let flags = MeterFlags::PKTPS | MeterFlags::BURST;
        let mut m = meter(flags, vec![remark(1), drop_above(2, 2)]).unwrap();
        let verdicts: Vec<Verdict> = (0..3).map(|_| m.measure(100, 1, Time::ZERO)).collect();
        assert_eq!(verdicts, [Verdict::Pass, Verdict::Remark(1), Verdict::Drop]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(meter(MeterFlags::KBPS, vec![drop_above(0, 1)]).unwrap_err(), meter_mod_failed::BAD_RATE);
        assert_eq!(
            meter(MeterFlags::KBPS | MeterFlags::PKTPS, vec![]).unwrap_err(),
            meter_mod_failed::BAD_FLAGS
        );
        let many = vec![drop_above(1, 1); MAX_BANDS + 1];
        assert_eq!(meter(MeterFlags::KBPS, many).unwrap_err(), meter_mod_failed::OUT_OF_BANDS);
    }
}
