use proptest::prelude::*;
use weir_ir::{Program, check, program_of, Layer};
use weir_ir::program::EntryKind;
use weir_packet::Packet;
use weir_verify::testing::*;
use weir_verify::*;
fn progs()->Vec<(String,Program)>{
 let mut v=vec![];
 let args:Vec<(&str,Vec<&str>)>=vec![("Classifier",vec!["12/0800","12/0806","-"]),("IPClassifier",vec!["tcp dst port 80","udp","src net 10.0.0.0/8","-"]),("IPFilter",vec!["allow src 10.0.0.0/8 && tcp","deny all"]),("ARPQuerier",vec!["10.0.0.1","00:01:02:03:04:05"]),("ARPResponder",vec!["10.0.0.1 00:01:02:03:04:05"]),("EtherEncap",vec!["0x0800","00:01:02:03:04:05","00:01:02:03:04:06"]),("VLANEncap",vec!["5"]),("ICMPError",vec!["10.0.0.1","timeexceeded","0"]),("LinearIPLookup",vec!["10.0.0.0/8 0","0.0.0.0/0 10.0.0.9 1"]),("RadixIPLookup",vec!["10.0.0.0/8 0","0.0.0.0/0 10.0.0.9 1"]),("StaticIPLookup",vec!["10.0.0.0/8 0","0.0.0.0/0 10.0.0.9 1"]),("IPRewriter",vec!["pattern 10.0.0.1 2000-2002 - - 0 1","drop"]),("IPAddrRewriter",vec!["pattern 10.0.0.1 - 0 1","drop"]),("ConnectionLimit",vec!["2"]),("Paint",vec!["3"]),("CheckPaint",vec!["3"]),("Strip",vec!["14"]),("Unstrip",vec!["14"]),("Switch",vec!["1"]),("StaticSwitch",vec!["1"]),("HashSwitch",vec!["0","4"]),("PaintSwitch",vec![])];
 for c in weir_elements::classes(){
  let a:Vec<String>=args.iter().find(|a|a.0==c.info.name).map(|a|a.1.iter().map(|s|s.to_string()).collect()).unwrap_or_default();
  match c.configure(&a){ Ok(e)=>{ for (i,o) in [(1,2),(2,2)] { let r=std::panic::catch_unwind(std::panic::AssertUnwindSafe(||program_of(&*e,"x",i,o))); if let Ok(p)=r { if check(&p).is_ok(){ v.push((format!("{}/{i}/{o}",c.info.name),p)); } else {println!("check fails {} {i} {o}",c.info.name)} } } }
   Err(e)=>println!("no {} {e:?}",c.info.name)}
 } v }
fn start() -> impl Strategy<Value = (Vec<u8>, u8, u8,u8)> {
 (prop::collection::vec(prop_oneof![any::<u8>(), 0..3_u8], 0..90), any::<u8>(), any::<u8>(),any::<u8>()).prop_map(|(mut b,a,k,f)|{
  let ip= if k%2==0 {14} else {0};
  if b.len()>ip+28 && k%8!=7 { if ip==14 { b[12]=8; b[13]=if k%16==2 {6} else {0}; }
   b[ip]=0x45+ (k/16)%2; b[ip+8]=b[ip+8]%4; b[ip+9]=[6,17,1,6][(f%4) as usize]; if f%8<6 {b[ip+6]=0;b[ip+7]=0;} b[ip+12]=10;b[ip+13]=0;b[ip+14]=0;b[ip+15]=f%4; b[ip+16]=10;b[ip+17]=0;b[ip+18]=0;b[ip+19]=1+f%3; b[ip+20]=0;b[ip+21]=f%3;b[ip+22]=7;b[ip+23]=208+f%4; let l=(b.len()-ip) as u16; if f%5!=0 { b[ip+2..ip+4].copy_from_slice(&l.to_be_bytes()); }
   let h=(b[ip] as usize&15)*4; b[ip+10]=0;b[ip+11]=0; if b.len()>=ip+h { let s=!weir_ir::interp::checksum(&b[ip..ip+h]); b[ip+10..ip+12].copy_from_slice(&s.to_be_bytes()); } 
   if ip==14&&b[13]==6 { b[14..22].copy_from_slice(&[0,1,8,0,6,4,0,1+f%2]); b[28..32].copy_from_slice(&[10,0,0,f%4]); b[38..42].copy_from_slice(&[10,0,0,1]); } }
  (b,a,k,f)})}
fn trials(p:&Program, starts:&[(Vec<u8>,u8,u8,u8)])->Vec<Trial>{
  let entries: Vec<_> = p.entries.iter().filter(|e| !matches!(e.kind, EntryKind::Expire{..})).collect();
  let mut now=0;
  starts.iter().map(|(b,a,k,f)|{ now+= if a%16==0 {u64::from(*f)*1_000_000_000} else {u64::from(*a)*1000}; let e=entries[*f as usize % entries.len()];
   let packet=matches!(e.kind,EntryKind::Packet{..}).then(||{ let mut pk=Packet::from_bytes(b).unwrap(); let ip=if k%2==0 {14u32} else {0}; if pk.len()>(ip+28) as usize && k%32!=31 { let d=pk.data(); pk.set_layer(Layer::Net,Some(d+ip)); pk.set_layer(Layer::Transport,Some(d+ip+ (b[ip as usize] as u32&15)*4).filter(|&t|t<=pk.end())); if ip==14{pk.set_layer(Layer::Mac,Some(d));} if a%4==0&&ip==14 {pk.pull(14);} }
     pk.anno[0..4].copy_from_slice(&[10,0,0,f%4]); pk.anno[16..20].fill(*a%4); pk.packet_type=a%3; pk});
   let n=p.block(e.block).params.len();
   Trial{entry:e.block,packet,args:vec![u128::from(*a);n],now,randoms:vec![*a as u32*77,3,9]} }).collect()
}
proptest! {
  #![proptest_config(ProptestConfig{cases: std::env::var("N").ok().and_then(|n|n.parse().ok()).unwrap_or(30), failure_persistence: None, ..ProptestConfig::default()})]
  #[test] fn covered(starts in prop::collection::vec(start(),1..20)){
    for (n,p) in progs() { let s=assert_covered(&p, trials(&p,&starts)); if s.open>0 { println!("OPEN {n} {s:?}"); } }
  }
}
#[test] fn replayed(){ for (n,p) in progs(){ for e in &p.entries {
  let t=std::time::Instant::now();
  let s=assert_replayed(&p,e.block,&SymbolicInput{marks:[None,Some(0),Some(20),None],..Default::default()},Limits{paths:400,..Default::default()});
  println!("R {n} {:?} {s:?} {:?}",e.kind,t.elapsed()); }}}
