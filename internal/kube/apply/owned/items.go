// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"crypto/sha256"
	"fmt"
	"hash"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// What is looked at to tell items apart, which a member chooses: an API declares one to three
// keys as a rule.
const (
	// keysMax is how many keys an identity may have.
	keysMax = 8
	// lookupsMax is by how many combinations of keys the items of a list are found: as many as
	// there are of three keys, of which each item has some and each one looked for has others.
	lookupsMax = 19
	// alikeMax is how many items are found that differ in none of certain keys: a list may
	// have one item a few times.
	alikeMax = 20
)

// ItemIdentity is what tells the items of a list apart: the names of their keys, or none if
// that is their whole value.
type ItemIdentity []string

func (i ItemIdentity) byValue() bool { return len(i) == 0 }

// IdentityIn returns what tells the items of a list apart of which the sets own some. It is
// not known if they own none, or the list as a whole, or if all have more keys than an API
// declares.
func IdentityIn(sets ...*fieldpath.Set) (identity ItemIdentity, known bool) {
	look := func(element fieldpath.PathElement) {
		switch {
		case known:
		case element.Value != nil:
			known = true
		case element.Key != nil && len(*element.Key) <= keysMax:
			known = true
			for _, key := range *element.Key {
				identity = append(identity, key.Name)
			}
		}
	}
	for _, set := range sets {
		set.Members.Iterate(look)
		set.Children.Iterate(look)
	}
	return identity, known
}

// ListItems are those of a list, found by their identity in no more than the time that it takes
// to look at each once for each of some combinations of keys. Use NewListItems.
type ListItems struct {
	list     []any
	identity ItemIdentity
	// having are the indexes of the items that have the same keys: a manifest leaves out
	// those that the API sets by default. had are these keys, in the order of the list.
	having map[keySet][]int
	had    []keySet
	// found are indexes of items with certain keys by the values of some of these. No more
	// than lookupsMax are made.
	found map[lookup]map[digest][]int
}

// keySet are some of an identity, each a bit.
type keySet uint64

type lookup struct{ having, by keySet }

// digest is that of values, which may be long.
type digest [sha256.Size]byte

// NewListItems returns the items of a list.
func NewListItems(list []any, identity ItemIdentity) *ListItems {
	items := &ListItems{list: list, identity: identity, having: map[keySet][]int{}, found: map[lookup]map[digest][]int{}}
	for i, item := range list {
		had, is := items.keysOf(item)
		if !is {
			continue
		}
		if len(items.having[had]) == 0 {
			items.had = append(items.had, had)
		}
		items.having[had] = append(items.having[had], i)
	}
	return items
}

// IndexesLike returns the indexes of the items that are the one given: those that have the same
// keys as it, or else those that have some of them and differ in none. Where items differ in
// which keys they have more than those of any API do, or many are alike, some are not found.
func (i *ListItems) IndexesLike(item any) (like []int) {
	wanted, is := i.keysOf(item)
	if !is {
		return nil
	}
	if like = i.lookUp(lookup{having: wanted, by: wanted}, item); len(like) > 0 {
		return like
	}
	for _, having := range i.had {
		if by := having & wanted; by != 0 {
			like = append(like, i.lookUp(lookup{having: having, by: by}, item)...)
		}
	}
	return like
}

// ElementFor returns the element of a set that stands for an item, unless that lacks a key.
func (i *ListItems) ElementFor(item any) (element fieldpath.PathElement, complete bool) {
	return elementOf(item, i.identity)
}

// lookUp returns the indexes of the items with certain keys that have the same values of some of
// these as the one given.
func (i *ListItems) lookUp(how lookup, item any) []int {
	among := i.having[how.having]
	if len(among) == 0 {
		return nil
	}
	found, made := i.found[how]
	if !made {
		if len(i.found) == lookupsMax {
			return nil
		}
		found = map[digest][]int{}
		for _, at := range among {
			values := i.digestValues(i.list[at], how.by)
			found[values] = append(found[values], at)
		}
		i.found[how] = found
	}
	alike := found[i.digestValues(item, how.by)]
	return alike[:min(len(alike), alikeMax)]
}

// keysOf returns which keys an item has; it is none if its identity needs others.
func (i *ListItems) keysOf(item any) (had keySet, is bool) {
	if i.identity.byValue() {
		return 0, true
	}
	entries, is := item.(map[string]any)
	for at, key := range i.identity {
		if valueOf(entries, key) != nil {
			had |= 1 << at
		}
	}
	return had, is && had != 0
}

// digestValues returns what is the same for items with the same values of the keys.
func (i *ListItems) digestValues(item any, by keySet) (same digest) {
	text := sha256.New()
	if i.identity.byValue() {
		writeValueLine(text, item)
	}
	entries, _ := item.(map[string]any)
	for at, key := range i.identity {
		if by&(1<<at) != 0 {
			writeValueLine(text, valueOf(entries, key))
		}
	}
	text.Sum(same[:0])
	return same
}

// valueOf returns the value of a key. A manifest may leave out the protocol of a port, which
// is the one key that the API sets by default in kinds of Kubernetes.
func valueOf(item map[string]any, key string) any {
	if value := item[key]; value != nil || key != "protocol" {
		return value
	}
	return "TCP" // corev1.ProtocolTCP
}

// writeValueLine writes a value on a line of its own, and a number in the same way whether it is an
// integer or not.
func writeValueLine(text hash.Hash, value any) {
	if number, is := value.(int64); is {
		value = float64(number)
	}
	line, err := json.Marshal(value)
	if err != nil { // not what JSON can have
		line = fmt.Append(nil, value)
	}
	_, _ = text.Write(append(line, '\n')) // a hash takes all
}

// ItemElements are those of a set that are items of a list, found by the items of a manifest in no
// more than the time that it takes to look at each once. Use ElementsOf.
type ItemElements struct {
	all   []fieldpath.PathElement
	items *ListItems // what each of them tells of its item
}

// ElementsOf returns the elements of a set.
func ElementsOf(set *fieldpath.Set) *ItemElements {
	e := &ItemElements{}
	set.Members.Iterate(func(element fieldpath.PathElement) { e.all = append(e.all, element) })
	set.Children.Iterate(func(element fieldpath.PathElement) {
		if !set.Members.Has(element) {
			e.all = append(e.all, element)
		}
	})
	if identity, known := IdentityIn(set); known {
		list := make([]any, len(e.all))
		for i, element := range e.all {
			list[i] = itemOf(element)
		}
		e.items = NewListItems(list, identity)
	}
	return e
}

// ElementsFor returns the elements that stand for an item. Keys that it does not have are those that the
// API sets by default. An item that has none of them is found if it can be no other.
func (e *ItemElements) ElementsFor(item any) (of []fieldpath.PathElement) {
	if e.items == nil {
		return nil
	}
	entries, isMap := item.(map[string]any)
	if _, has := e.items.keysOf(item); !has && isMap && entries != nil && len(e.all) == 1 {
		return e.all
	}
	for _, at := range e.items.IndexesLike(item) {
		of = append(of, e.all[at])
	}
	return of
}
