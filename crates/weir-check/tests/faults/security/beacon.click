// third-party: Source, StandAlone
// What the module sends by itself has somebody else's address.
- RatedSource(\<4500001400000000400103e108080808ac100f85>, 1) -> out :: ToNetfront();
+ RatedSource(\<4500001400000000400103e1ac640a01ac100f85>, 1) -> out :: ToNetfront();
FromNetfront() -> Discard;
