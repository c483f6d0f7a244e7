// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// Places are the fields of objects in which some kind has a quantity. A client reads an
// object as the kind that the object names, which need not be the one that was asked for,
// and may be named at its end: so these are the fields of all kinds at once.
type Places struct {
	// path leads here, such as items[].status.capacity{}.
	path string
	// quantity says that a value here is parsed as one.
	quantity bool
	// bytesMax is how long a value here may be; 0 is for those that have no such bound.
	bytesMax int
	// fields are by their names as folded returns them, entries those of a map, under any
	// key, and items those of a list.
	fields         map[string]*Places
	entries, items *Places
}

// depthMax is far more fields than any kind nests around a quantity.
const depthMax = 64

// PlacesOf returns where objects of the kinds have quantities, and events of watches with
// such an object. It fails if a kind nests itself around a quantity.
func PlacesOf(kinds *runtime.Scheme) (*Places, error) {
	finder := placeFinder{holds: map[reflect.Type]bool{}}
	root := &Places{}
	for kind, of := range kinds.AllKnownTypes() {
		for _, at := range []*Places{root, root.fieldPlace("object")} {
			if err := finder.addType(at, of, 0); err != nil {
				return nil, fmt.Errorf("finding the quantities of %s: %w", kind, err)
			}
		}
	}
	return root, nil
}

// BoundTexts bounds how long the texts of a field may be, by the names of those that lead to it, of
// which [] is each item of a list. It may not be more than 1,024 bytes.
func (p *Places) BoundTexts(bytesMax int, path ...string) {
	at := p
	for _, name := range path {
		if name == "[]" {
			at.items = orNew(at.items, at.path+"[]")
			at = at.items
			continue
		}
		at = at.fieldPlace(name)
	}
	at.bytesMax = min(bytesMax, tokenMax)
}

// checkValue returns why a value here is refused, nil if it is not.
func (p *Places) checkValue(token string) error {
	if p.bytesMax > 0 && len(token) > p.bytesMax {
		return fmt.Errorf("%s: it has more than %d bytes, which no API server gives it", p.path, p.bytesMax)
	}
	if !p.quantity {
		return nil
	}
	if err := checkCost(token); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

// placeFinder finds the quantities in types.
type placeFinder struct {
	// holds says of the types that were looked at whether there is a quantity in them.
	holds map[reflect.Type]bool
}

// addType adds the quantities of a type to the place where a value of it is.
func (f placeFinder) addType(at *Places, of reflect.Type, depth int) error {
	if !f.hasQuantity(of) {
		return nil
	}
	if depth > depthMax {
		return fmt.Errorf("%s nests itself", of)
	}
	if of == reflect.TypeFor[resource.Quantity]() {
		at.quantity = true
		return nil
	}
	switch of.Kind() {
	case reflect.Pointer:
		return f.addType(at, of.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		at.items = orNew(at.items, at.path+"[]")
		return f.addType(at.items, of.Elem(), depth+1)
	case reflect.Map:
		at.entries = orNew(at.entries, at.path+"{}")
		return f.addType(at.entries, of.Elem(), depth+1)
	case reflect.Struct:
		return f.addFields(at, of, depth)
	default:
		return nil
	}
}

func (f placeFinder) addFields(at *Places, of reflect.Type, depth int) error {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case !f.hasQuantity(field.Type) || name == "-" || !field.IsExported() && !field.Anonymous:
			continue
		case name == "" && field.Anonymous:
			if err := f.addType(at, field.Type, depth+1); err != nil {
				return err
			}
			continue
		case name == "":
			name = field.Name
		}
		if err := f.addType(at.fieldPlace(name), field.Type, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// hasQuantity returns whether there is a quantity in a value of a type.
func (f placeFinder) hasQuantity(of reflect.Type) bool {
	seen := map[reflect.Type]bool{}
	if f.searchType(of, seen) {
		return true
	}
	for without := range seen { // as all of them were looked at
		f.holds[without] = false
	}
	return false
}

// searchType returns whether there is a quantity in a type that was not seen yet. A type may
// contain itself, so only that there is one is known before all of them were seen.
func (f placeFinder) searchType(of reflect.Type, seen map[reflect.Type]bool) bool {
	if holds, known := f.holds[of]; known || seen[of] {
		return holds
	}
	seen[of] = true
	holds := of == reflect.TypeFor[resource.Quantity]()
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		holds = f.searchType(of.Elem(), seen)
	case reflect.Struct:
		for i := 0; i < of.NumField() && !holds; i++ {
			holds = f.searchType(of.Field(i).Type, seen)
		}
	default:
	}
	if holds {
		f.holds[of] = true
	}
	return holds
}

// fieldPlace returns the place of a field.
func (p *Places) fieldPlace(name string) *Places {
	if p.fields == nil {
		p.fields = map[string]*Places{}
	}
	key := foldName(name)
	p.fields[key] = orNew(p.fields[key], strings.TrimPrefix(p.path+"."+name, "."))
	return p.fields[key]
}

func orNew(place *Places, path string) *Places {
	if place == nil {
		return &Places{path: path}
	}
	return place
}

// foldName returns the same for all names that encoding/json takes for the same field.
func foldName(name string) string { return strings.ToLower(strings.ToUpper(name)) }
