; Declarations.
(function_declaration name: (identifier) @func)
(method_declaration name: (field_identifier) @method.own)
(type_spec name: (type_identifier) @class)
(type_alias name: (type_identifier) @class)
(type_parameter_declaration name: (identifier) @class)
(method_elem name: (field_identifier) @method.own)
(field_declaration name: (field_identifier) @field)
(parameter_declaration name: (identifier) @var)
(variadic_parameter_declaration name: (identifier) @var)
(short_var_declaration left: (expression_list (identifier) @var))
(range_clause left: (expression_list (identifier) @var))
(receive_statement left: (expression_list (identifier) @var))
(var_spec name: (identifier) @var)
(const_spec name: (identifier) @var)
(type_switch_statement alias: (expression_list (identifier) @var))
(labeled_statement label: (label_name) @var)

; Uses.
(selector_expression operand: (_) @receiver field: (field_identifier) @member)
(qualified_type package: (package_identifier) @receiver name: (type_identifier) @member)
(composite_literal type: (qualified_type) body: (literal_value (keyed_element key: (literal_element (identifier) @fixed))))
(composite_literal type: (type_identifier) body: (literal_value (keyed_element key: (literal_element (identifier) @member))))

; Not ours.
(package_clause (package_identifier) @fixed)
(package_identifier) @fixed
(import_spec name: (package_identifier) @foreign)
(import_spec path: (interpreted_string_literal) @package)

; Text.
(comment) @comment
[(interpreted_string_literal) (raw_string_literal)] @string
