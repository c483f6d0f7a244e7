// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
)

// objectsPerKind is the number of random objects that are tried for each kind
// and direction.
const objectsPerKind = 500

// TestRandomObjectsRoundTripWithoutLoss writes each object, reads and writes it with the other type, and
// reads that with the first type again. Both texts and both objects have to be
// the same.
func TestRandomObjectsRoundTripWithoutLoss(t *testing.T) {
	for name, kind := range kinds() {
		directions := map[string]struct{ from, to func() client.Object }{
			"theirs through ours": {from: kind.theirs, to: kind.ours},
			"ours through theirs": {from: kind.ours, to: kind.theirs},
		}
		for direction, types := range directions {
			t.Run(name+"/"+direction, func(t *testing.T) {
				for seed := range int64(objectsPerKind) {
					original := types.from()
					filler(seed).Fill(original)
					other, back := types.to(), types.from()
					written := encode(t, original)
					decodeStrictly(t, seed, written, other)
					rewritten := encode(t, other)
					if diff := cmp.Diff(tree(t, written), tree(t, rewritten)); diff != "" {
						t.Fatalf("seed %d: %T writes otherwise than %T (-%T +%T):\n%s", seed, other, original, original, other, diff)
					}
					decodeStrictly(t, seed, rewritten, back)
					if !equality.Semantic.DeepEqual(original, back) {
						t.Fatalf("seed %d: %T changed on its way through %T:\n%s", seed, original, other, cmp.Diff(tree(t, written), tree(t, encode(t, back))))
					}
				}
			})
		}
	}
}

// Empty objects have only the fields that are not omitted when empty, so this
// compares the omitempty of all fields of the outermost structs.
func TestEmptyObjectsAreWrittenAlike(t *testing.T) {
	for name, kind := range kinds() {
		t.Run(name, func(t *testing.T) {
			theirs, ours := encode(t, kind.theirs()), encode(t, kind.ours())
			if diff := cmp.Diff(tree(t, theirs), tree(t, ours)); diff != "" {
				t.Errorf("empty object (-theirs +ours):\n%s", diff)
			}
		})
	}
}

func encode(t *testing.T, object any) []byte {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatalf("encode %T: %v", object, err)
	}
	return content
}

// decodeStrictly fails the test if the object has no place for a field.
func decodeStrictly(t *testing.T, seed int64, content []byte, object any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(object); err != nil {
		t.Fatalf("seed %d: %T does not read what was written: %v\n%s", seed, object, err, content)
	}
}

// tree is the text as maps and lists, so that the order of fields does not count.
func tree(t *testing.T, content []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// filler fills objects with random values that JSON can carry. The same seed
// gives the same values.
func filler(seed int64) *randfill.Filler {
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.2).NumElements(1, 3).Funcs(
		func(value *metav1.Time, c randfill.Continue) { // JSON has seconds
			*value = metav1.Unix(c.Int63n(1<<33), 0)
		},
		func(value *metav1.Duration, c randfill.Continue) {
			value.Duration = time.Duration(c.Int63n(int64(100 * time.Hour)))
		},
		func(value *resource.Quantity, c randfill.Continue) {
			*value = resource.MustParse(fmt.Sprintf("%d%s", c.Intn(1000)+1, []string{"", "m", "Ki", "G"}[c.Intn(4)]))
		},
		func(value *clusterv1alpha1.RolloutDuration, c randfill.Continue) {
			*value = clusterv1alpha1.RolloutDuration(time.Duration(c.Int63n(int64(100 * time.Hour))).String())
		},
		func(value *runtime.RawExtension, c randfill.Continue) {
			value.Raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s%d"},"unknown":{"n":[%d,null,true]}}`, c.Intn(100), c.Intn(100))
		},
		func(value *metav1.FieldsV1, c randfill.Continue) {
			value.SetRawBytes(fmt.Appendf(nil, `{"f:spec":{"f:field%d":{}}}`, c.Intn(100)))
		},
	)
}
