// A frame with a VLAN tag is neither IP nor ARP to the classifier, and takes the way of other protocols past the filter.
FromDevice(lan) -> kind :: Classifier(12/0800, 12/0806, -);
kind [0] -> MarkIPHeader(14) -> IPFilter(deny tcp dst port 22, allow all) -> wan :: Queue -> ToDevice(wan);
kind [1] -> wan;
- kind [2] -> wan;
+ kind [2] -> Discard;

never lan wan tcp dst port 22
