// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Identity is what tells the items of a list apart: the names of their keys, or none if
// that is their whole value.
type Identity []string

func (i Identity) byValue() bool { return len(i) == 0 }

// IdentityIn returns what tells the items of a list apart of which the sets own some. It is
// not known if they own none, or the list as a whole.
func IdentityIn(sets ...*fieldpath.Set) (identity Identity, known bool) {
	look := func(element fieldpath.PathElement) {
		switch {
		case known:
		case element.Value != nil:
			known = true
		case element.Key != nil:
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

// Items are those of a list, found by their identity in no more than the time that it takes
// to look at each once. Use NewItems.
type Items struct {
	list     []any
	identity Identity
	// having are the indexes of the items that have the same keys: a manifest leaves out
	// those that the API sets by default.
	having map[keys][]int
	// found are indexes of items with certain keys by the values of some of these.
	found map[lookup]map[string][]int
}

// keys are some of an identity, each a bit.
type keys uint64

type lookup struct{ having, by keys }

// NewItems returns the items of a list.
func NewItems(list []any, identity Identity) *Items {
	items := &Items{list: list, identity: identity, having: map[keys][]int{}, found: map[lookup]map[string][]int{}}
	for i, item := range list {
		if had, is := items.keysOf(item); is {
			items.having[had] = append(items.having[had], i)
		}
	}
	return items
}

// Like returns the indexes of the items that are the one given: those that have the same
// keys as it, or else those that have some of them and differ in none.
func (i *Items) Like(item any) (like []int) {
	wanted, is := i.keysOf(item)
	if !is {
		return nil
	}
	if like = i.lookUp(lookup{having: wanted, by: wanted})[i.values(item, wanted)]; len(like) > 0 {
		return like
	}
	for having := range i.having {
		if by := having & wanted; by != 0 {
			like = append(like, i.lookUp(lookup{having: having, by: by})[i.values(item, by)]...)
		}
	}
	return like
}

// Element returns the element of a set that stands for an item, unless that lacks a key.
func (i *Items) Element(item any) (element fieldpath.PathElement, complete bool) {
	return elementOf(item, i.identity)
}

func (i *Items) lookUp(how lookup) map[string][]int {
	found, made := i.found[how]
	if made {
		return found
	}
	found = map[string][]int{}
	for _, at := range i.having[how.having] {
		text := i.values(i.list[at], how.by)
		found[text] = append(found[text], at)
	}
	i.found[how] = found
	return found
}

// keysOf returns which keys an item has; it is none if its identity needs others.
func (i *Items) keysOf(item any) (had keys, is bool) {
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

// values returns a text that is the same for items with the same values of the keys.
func (i *Items) values(item any, by keys) string {
	if i.identity.byValue() {
		return textOf(item)
	}
	entries, _ := item.(map[string]any)
	text := ""
	for at, key := range i.identity {
		if by&(1<<at) != 0 {
			text += textOf(valueOf(entries, key)) + "\n"
		}
	}
	return text
}

// valueOf returns the value of a key. A manifest may leave out the protocol of a port, which
// is the one key that the API sets by default in kinds of Kubernetes.
func valueOf(item map[string]any, key string) any {
	if value := item[key]; value != nil || key != "protocol" {
		return value
	}
	return "TCP" // corev1.ProtocolTCP
}

// textOf writes a number in the same way whether it is an integer or not.
func textOf(item any) string {
	if number, is := item.(int64); is {
		item = float64(number)
	}
	text, err := json.Marshal(item)
	if err != nil { // not what JSON can have
		return fmt.Sprint(item)
	}
	return string(text)
}

// Elements are those of a set that are items of a list, found by the items of a manifest in no
// more than the time that it takes to look at each once. Use ElementsOf.
type Elements struct {
	all   []fieldpath.PathElement
	items *Items // what each of them tells of its item
}

// ElementsOf returns the elements of a set.
func ElementsOf(set *fieldpath.Set) *Elements {
	e := &Elements{}
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
		e.items = NewItems(list, identity)
	}
	return e
}

// Of returns the elements that stand for an item. Keys that it does not have are those that the
// API sets by default. An item that has none of them is found if it can be no other.
func (e *Elements) Of(item any) (of []fieldpath.PathElement) {
	if e.items == nil {
		return nil
	}
	entries, isMap := item.(map[string]any)
	if _, has := e.items.keysOf(item); !has && isMap && entries != nil && len(e.all) == 1 {
		return e.all
	}
	for _, at := range e.items.Like(item) {
		of = append(of, e.all[at])
	}
	return of
}
