// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
)

func workColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the Work."},
		{Name: "Workload-Kind", Type: "string", Description: "Kind of the first object."},
		{Name: "Applied", Type: "string", Description: "Whether the objects are on the cluster as they are wanted."},
		{Name: "Age", Type: "string", Description: "Time since the Work was created."},
	}
}

// workPrinter shows Works as a table.
type workPrinter struct{ clock clock.PassiveClock }

// ConvertToTable implements rest.TableConvertor, with Karmada's columns.
func (p workPrinter) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || o == nil || !o.NoHeaders {
		table.ColumnDefinitions = workColumns()
	}
	switch o := object.(type) {
	case *v1alpha1.Work:
		table.ResourceVersion = o.ResourceVersion
		table.Rows = []metav1.TableRow{p.workRow(o)}
	case *v1alpha1.WorkList:
		table.ResourceVersion = o.ResourceVersion
		table.Continue = o.Continue
		table.RemainingItemCount = o.RemainingItemCount
		table.Rows = make([]metav1.TableRow, 0, len(o.Items))
		for i := range o.Items {
			table.Rows = append(table.Rows, p.workRow(&o.Items[i]))
		}
	default:
		return nil, fmt.Errorf("a table shows Works, and not %T", object)
	}
	return table, nil
}

func (p workPrinter) workRow(w *v1alpha1.Work) metav1.TableRow {
	applied := ""
	if condition := meta.FindStatusCondition(w.Status.Conditions, v1alpha1.WorkConditionApplied); condition != nil {
		applied = string(condition.Status)
	}
	age := "<unknown>"
	if !w.CreationTimestamp.IsZero() {
		age = duration.HumanDuration(p.clock.Since(w.CreationTimestamp.Time))
	}
	return metav1.TableRow{Object: runtime.RawExtension{Object: w}, Cells: []any{w.Name, firstKind(w), applied, age}}
}

// firstKind returns the kind of the first object, "" if there is none.
func firstKind(w *v1alpha1.Work) string {
	if len(w.Spec.Workload.Manifests) == 0 {
		return ""
	}
	first := metav1.TypeMeta{}
	if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &first); err != nil {
		return ""
	}
	return first.Kind
}
