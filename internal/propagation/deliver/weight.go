// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import "fmt"

const (
	// heavyValues is from how many values on few bindings at a time may have their object made: each
	// value takes some hundred bytes of memory, whatever few it has in JSON, and there are several
	// copies of the object at a time.
	heavyValues = 50_000
	// variantValues is how many values the variants of an object have together that are kept.
	variantValues = 8 * heavyValues
	// heavyBytes is likewise how many bytes works have that are made all together, and
	// togetherBytesMax how many they may have at all.
	heavyBytes       = 32 << 20
	togetherBytesMax = 512 << 20
	// valueBytes is what a value takes in JSON besides texts, about.
	valueBytes = 4
)

// objectWeight is what an object takes: its values are maps, lists, texts and numbers, and its bytes about
// those that it has as JSON.
type objectWeight struct{ values, bytes int }

func weighValue(value any) objectWeight {
	is := objectWeight{values: 1, bytes: valueBytes}
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			is.addWeight(weighValue(field))
			is.bytes += len(name)
		}
	case []any:
		for _, element := range value {
			is.addWeight(weighValue(element))
		}
	case string:
		is.bytes += len(value)
	}
	return is
}

func (w *objectWeight) addWeight(other objectWeight) {
	w.values, w.bytes = w.values+other.values, w.bytes+other.bytes
}

// variants returns how many variants of the object are kept to be copied.
func (s WorkSource) variants() int {
	return max(1, min(variantsMax, variantValues/weighValue(s.Object.Object).values))
}

// IsHeavyToRender reports whether making the works takes so much memory that few bindings may do so at a time:
// as policies change documents, as the object has many values, or, if all works are made together,
// as these have many bytes.
func (s WorkSource) IsHeavyToRender(together bool) bool {
	return s.Overrides.ExpandsDocuments() || weighValue(s.Object.Object).values > heavyValues || together && s.togetherBytes() > heavyBytes
}

// TooHeavy says that the works have more bytes than may be made together; nil if they have not.
func (s WorkSource) TooHeavy() error {
	if bytes := s.togetherBytes(); bytes > togetherBytesMax {
		return fmt.Errorf("a rollout has the works of all clusters made together, and those of this object would have %d MiB, of %d MiB that they may have: "+
			"make the object smaller, send it to fewer clusters, or take it out of the rollout", bytes>>20, togetherBytesMax>>20)
	}
	return nil
}

func (s WorkSource) togetherBytes() int {
	return (weighValue(s.Object.Object).bytes + s.Overrides.MaxAddedBytes()) * len(BindingTargets(s.Binding.BindingSpec()))
}
