// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quantity reads quantities that tenants and members have written. A quantity may
// have an exponent of ten digits, and whoever parses or adds it makes a number with as
// many digits as that says: 1e-100000000 takes a minute of a processor, and 1e2000000000
// a gigabyte. So what comes from others is looked at before it is parsed. The definitions
// of our kinds have the same bound in their schemas; this is for what has not passed them.
package quantity

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Pattern is what a quantity looks like: up to 40 digits before and after the point, and
// an exponent of up to two. It is the one of the schemas, too; see hack/make/generate.mk.
const Pattern = `^[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`

// ParseChecked returns the quantity that a text stands for.
func ParseChecked(text string) (resource.Quantity, error) {
	if err := checkText(text); err != nil {
		return resource.Quantity{}, err
	}
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("reading the quantity %q: %w", text, err)
	}
	return parsed, nil
}

// checkText is quick about nearly all that there are: what is short and has no exponent stands
// for no long number, and whoever parses it tells what is wrong with it.
func checkText(text string) error {
	const short = 40
	if len(text) <= short && !strings.ContainsAny(text, "eE") {
		return nil
	}
	if !regexp.MustCompile(Pattern).MatchString(text) {
		if len(text) > short {
			text = text[:short] + "…"
		}
		return fmt.Errorf("%q is not a quantity such as 500m or 2Gi, or one with more than 40 digits or an exponent beyond 99", text)
	}
	return nil
}

// UnmarshalChecked reads JSON into a value, as encoding/json does, but for quantities that cannot
// be parsed safely, which are an error.
func UnmarshalChecked(text []byte, into any) error {
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return err //nolint:wrapcheck // in place of the one of encoding/json
	}
	if err := CheckQuantities(object, into); err != nil {
		return err
	}
	return json.Unmarshal(text, into) //nolint:wrapcheck // as above
}

// CheckQuantities returns an error that names the first quantity of an object that cannot be parsed
// safely. The object is as JSON has it; like is a value of the type that it is about to be
// read into.
func CheckQuantities(object map[string]any, like any) error {
	return checkValue(reflect.TypeOf(like), object, nil)
}

// checkValue looks at the quantities of a value that is read into a type. Names are compared as
// encoding/json does, without regard to case.
func checkValue(of reflect.Type, value any, at *field.Path) error {
	if of == reflect.TypeFor[resource.Quantity]() {
		if err := checkText(formatValue(value)); value != nil && err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		return nil
	}
	switch of.Kind() {
	case reflect.Pointer:
		return checkValue(of.Elem(), value, at)
	case reflect.Slice, reflect.Array:
		list, _ := value.([]any)
		for i, item := range list {
			if err := checkValue(of.Elem(), item, at.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		entries, _ := value.(map[string]any)
		for key, entry := range entries {
			if err := checkValue(of.Elem(), entry, at.Key(key)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		entries, _ := value.(map[string]any)
		return checkFields(of, entries, at)
	default: // a value without quantities
	}
	return nil
}

func checkFields(of reflect.Type, entries map[string]any, at *field.Path) error {
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			if err := checkValue(f.Type, entries, at); err != nil {
				return err
			}
			continue
		}
		for key, entry := range entries {
			if !f.IsExported() || !strings.EqualFold(key, name) {
				continue
			}
			if err := checkValue(f.Type, entry, at.Child(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// formatValue returns what a JSON value is as a quantity.
func formatValue(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}
